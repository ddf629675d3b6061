import { propertyTypes } from '@sluice/contracts/event-row'
import { environments } from '@sluice/contracts/scopes'
import { ClickHouseError } from './errors.ts'
import { eventStructure } from './event-structure.ts'
import type { ExternalTablePoster } from './external-table.ts'

/** A line that is no event. */
export interface BadRow {
  /** Its place among the lines asked about. */
  index: number
  reason: 'not_json' | 'refused'
  /** ClickHouse's, where it refused. */
  code?: number
  text: string
}

/** Of so many rows ClickHouse is asked one by one what is wrong with them: 3 ms each. The others share the last answer. */
const reasonsMax = 50

const list = (values: readonly string[]) => values.map((value) => `'${value}'`).join(', ')
const enumOf = (values: readonly string[]) => `Enum8(${list(values)})`

/** The numbers of the rows that can be read and converted, as the insert does it; the parser skips the others. */
const findGood = `
SELECT n FROM b
WHERE environment IN (${list(environments)})
  AND arrayAll(type -> type IN (${list(propertyTypes)}), mapValues(property_types))
ORDER BY n
FORMAT TabSeparated`

/** Fails for a bad row, with the reason. */
const explain = `
SELECT count() FROM b
WHERE NOT ignore(
    CAST(environment, '${enumOf(environments).replaceAll("'", "\\'")}'),
    CAST(property_types, 'Map(String, ${enumOf(propertyTypes).replaceAll("'", "\\'")})'))`

/**
 * Finds bad rows among many by one query that skips them, however many there are: halving a batch until each was found
 * would cost a query or more for every bad row.
 *
 * The parser skips to the next line after an error. It could miss that line's start where an error is noticed late (in
 * the string that a broken line left open), so lines that are no JSON objects are sorted out before it sees them.
 */
export async function findBadRows(
  poster: ExternalTablePoster,
  lines: readonly Buffer[],
  timeoutMs: number,
): Promise<readonly BadRow[]> {
  const notJson = new Set([...lines.keys()].filter((index) => !isJsonObject(lines[index])))
  const numbered = [...lines.entries()].filter(([index]) => !notJson.has(index))
  const good = await readable(poster, numbered, timeoutMs)

  const bad: BadRow[] = []
  const refused = numbered.filter(([index]) => !good.has(index))
  // Those that are not asked about one by one are asked about once more, among themselves.
  const unasked = refused.slice(reasonsMax)
  if (unasked.length > 0 && (await readable(poster, unasked, timeoutMs)).size > 0) throw contradiction()

  let asked = 0
  let last: Pick<BadRow, 'code' | 'text'> = { text: '' }
  for (const [index, line] of lines.entries()) {
    if (notJson.has(index)) bad.push({ index, reason: 'not_json', text: 'the line is no JSON object' })
    else if (!good.has(index)) {
      if (asked < reasonsMax) last = await reasonOf(poster, line, timeoutMs)
      asked++
      bad.push({ index, reason: 'refused', ...last })
    }
  }
  return bad
}

/**
 * The indexes of the lines that ClickHouse can read. Throws when the answer is not whole: an event that it can read goes
 * along at either end, and the answer is sorted.
 */
async function readable(
  poster: ExternalTablePoster,
  lines: readonly (readonly [index: number, line: Buffer])[],
  timeoutMs: number,
): Promise<Set<number>> {
  const last = (lines.at(-1)?.[0] ?? 0) + 2
  const probe = Buffer.from('"environment":"prod"}')
  const numbered = [[-1, probe] as const, ...lines.map(([index, line]) => [index, line.subarray(1)] as const)]
  const { text } = await poster.post({
    sql: findGood,
    structure: `n UInt32, ${eventStructure}`,
    // In one piece: a write per row would cost more than the query.
    payloads: [
      Buffer.concat(
        [...numbered, [last - 1, probe] as const].map(([index, rest]) =>
          Buffer.concat([Buffer.from(`{"n":${index + 1},`), rest, newLine]),
        ),
      ),
    ],
    parameters: { input_format_allow_errors_num: String(lines.length) },
    timeoutMs,
  })
  const numbers = text.split('\n').slice(0, -1).map(Number)
  if (numbers[0] !== 0 || numbers.at(-1) !== last) {
    throw new ClickHouseError(undefined, 'the answer about rows that may be bad is not whole')
  }
  return new Set(numbers.slice(1, -1).map((number) => number - 1))
}

/** No row is given up that was once found good: it is asked again. */
function contradiction(): ClickHouseError {
  return new ClickHouseError(undefined, 'a row was left out of the good ones, and can be read alone')
}

const newLine = Buffer.from('\n')

function isJsonObject(line: Buffer | undefined): boolean {
  // The number goes in front of the first field: a brace must be there, and a field.
  if (line?.[0] !== 0x7b) return false
  try {
    return Object.keys(JSON.parse(line.toString()) as object).length > 0
  } catch {
    return false
  }
}

async function reasonOf(
  poster: ExternalTablePoster,
  line: Buffer,
  timeoutMs: number,
): Promise<Pick<BadRow, 'code' | 'text'>> {
  try {
    await poster.post({ sql: explain, structure: eventStructure, payloads: [line], parameters: {}, timeoutMs })
  } catch (error) {
    // The server's own trouble says nothing about the row.
    if (!(error instanceof ClickHouseError) || error.retryable) throw error
    return { ...(error.code !== undefined && { code: error.code }), text: error.internal }
  }
  throw contradiction()
}
