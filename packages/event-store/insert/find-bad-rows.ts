import { propertyTypes } from '@sluice/contracts/event-columns'
import { environments } from '@sluice/contracts/scopes'
import { ClickHouseError } from '../clickhouse/errors.ts'
import type { ExternalTableClient } from '../clickhouse/external-table.ts'
import { eventTableStructure } from './event-table-structure.ts'

/** A line that ClickHouse can't read as an event. */
export interface BadRow {
  /** Index among the given lines. */
  index: number
  reason: 'not_json' | 'refused'
  /** ClickHouse's error code for a refused line. */
  code?: number
  text: string
}

/** Rows whose reasons are determined individually, in 3 ms each. Further rows get the reason of the last one. */
const reasonsMax = 50

const list = (values: readonly string[]) => values.map((value) => `'${value}'`).join(', ')
const enumOf = (values: readonly string[]) => `Enum8(${list(values)})`

/** Selects the numbers of the rows that the insert could read and convert. The parser skips the other rows. */
const goodRowsSql = `
SELECT n FROM b
WHERE environment IN (${list(environments)})
  AND arrayAll(type -> type IN (${list(propertyTypes)}), mapValues(property_types))
ORDER BY n
FORMAT TabSeparated`

/** Fails for a bad row, and the error names the reason. */
const explainSql = `
SELECT count() FROM b
WHERE NOT ignore(
    CAST(environment, '${enumOf(environments).replaceAll("'", "\\'")}'),
    CAST(property_types, 'Map(String, ${enumOf(propertyTypes).replaceAll("'", "\\'")})'))`

/**
 * Finds any number of bad rows by one query that skips them. Halving the batch until each row is found would take one
 * query or more for every bad row.
 *
 * After an error the parser continues at the next line. It may miss the start of that line when a broken line leaves a
 * string open, because it then notices the error late. Therefore lines that are not JSON objects are removed before.
 */
export async function findBadRows(
  client: ExternalTableClient,
  lines: readonly Buffer[],
  timeoutMs: number,
): Promise<readonly BadRow[]> {
  const notJson = new Set([...lines.keys()].filter((index) => !isJsonObject(lines[index])))
  const numbered = [...lines.entries()].filter(([index]) => !notJson.has(index))
  const good = await findReadable(client, numbered, timeoutMs)

  const bad: BadRow[] = []
  const refused = numbered.filter(([index]) => !good.has(index))
  // Rows whose reasons are not determined individually are checked a second time, without the readable rows.
  const unexplained = refused.slice(reasonsMax)
  if (unexplained.length > 0 && (await findReadable(client, unexplained, timeoutMs)).size > 0) throw contradiction()

  let explained = 0
  let last: Pick<BadRow, 'code' | 'text'> = { text: '' }
  for (const [index, line] of lines.entries()) {
    if (notJson.has(index)) bad.push({ index, reason: 'not_json', text: 'the line is no JSON object' })
    else if (!good.has(index)) {
      if (explained < reasonsMax) last = await reasonOf(client, line, timeoutMs)
      explained++
      bad.push({ index, reason: 'refused', ...last })
    }
  }
  return bad
}

/**
 * Returns the indexes of the lines that ClickHouse can read. The query gets an additional readable event before and
 * after the lines, and sorts its result. A result without these two is incomplete: then throws ClickHouseError.
 */
async function findReadable(
  client: ExternalTableClient,
  lines: readonly (readonly [index: number, line: Buffer])[],
  timeoutMs: number,
): Promise<Set<number>> {
  const last = (lines.at(-1)?.[0] ?? 0) + 2
  const probe = Buffer.from('"environment":"prod"}')
  const numbered = [[-1, probe] as const, ...lines.map(([index, line]) => [index, line.subarray(1)] as const)]
  const { text } = await client.post({
    sql: goodRowsSql,
    structure: `n UInt32, ${eventTableStructure}`,
    // One buffer, because writing each row separately would take longer than the query.
    payloads: [
      Buffer.concat(
        [...numbered, [last - 1, probe] as const].map(([index, rest]) =>
          Buffer.concat([Buffer.from(`{"n":${index + 1},`), rest, newLine]),
        ),
      ),
    ],
    settings: { input_format_allow_errors_num: String(lines.length) },
    timeoutMs,
  })
  const numbers = text.split('\n').slice(0, -1).map(Number)
  if (numbers[0] !== 0 || numbers.at(-1) !== last) {
    throw new ClickHouseError(undefined, 'the answer about rows that may be bad is not whole')
  }
  return new Set(numbers.slice(1, -1).map((number) => number - 1))
}

/** This error is retryable, so a row that was readable once is never discarded. */
function contradiction(): ClickHouseError {
  return new ClickHouseError(undefined, 'a row was left out of the good ones, and can be read alone')
}

const newLine = Buffer.from('\n')

function isJsonObject(line: Buffer | undefined): boolean {
  // The row's number is inserted after the opening brace, before the first field. Therefore the object must have a
  // field.
  if (line?.[0] !== 0x7b) return false
  try {
    return Object.keys(JSON.parse(line.toString()) as object).length > 0
  } catch {
    return false
  }
}

async function reasonOf(
  client: ExternalTableClient,
  line: Buffer,
  timeoutMs: number,
): Promise<Pick<BadRow, 'code' | 'text'>> {
  try {
    await client.post({ sql: explainSql, structure: eventTableStructure, payloads: [line], settings: {}, timeoutMs })
  } catch (error) {
    // A failure of the server does not depend on the row.
    if (!(error instanceof ClickHouseError) || error.retryable) throw error
    return { ...(error.serverCode !== undefined && { code: error.serverCode }), text: error.internal }
  }
  throw contradiction()
}
