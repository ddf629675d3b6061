import { fieldOf, importColumns } from '@sluice/contracts/import-columns'
import { type ImportType, importTypes } from '@sluice/contracts/imports'
import { texts } from './messages.ts'

/** What the beginning of a file says: its columns, and what is wrong with them. */
export interface Checked {
  /** Empty for JSON. */
  columns: string[]
  isJson: boolean
  problem?: string
}

const delimiters = [',', ';', '\t']

/** The cells of the first line of a CSV file, by the delimiter that it has most of. */
export function headerOf(text: string): string[] {
  const line = firstLine(text)
  const unquoted = line.replaceAll(/"[^"]*"/g, '')
  const countOf = (delimiter: string) => unquoted.split(delimiter).length
  const delimiter = delimiters.reduce((best, each) => (countOf(each) > countOf(best) ? each : best))
  const cells: string[] = []
  let cell = ''
  let isQuoted = false
  for (let at = 0; at < line.length; at++) {
    const character = line[at]
    if (character === '"') {
      if (isQuoted && line[at + 1] === '"') cell += line[++at] ?? ''
      else isQuoted = !isQuoted
    } else if (character === delimiter && !isQuoted) {
      cells.push(cell)
      cell = ''
    } else cell += character ?? ''
  }
  return [...cells, cell]
}

/** The first line, which may have line breaks within quotes. */
function firstLine(text: string): string {
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') isQuoted = !isQuoted
    else if (!isQuoted && (text[at] === '\n' || text[at] === '\r')) return text.slice(0, at)
  }
  return text
}

/** Judges the beginning of a file as the interface will: by the same columns. */
export function checkHeader(text: string, type: ImportType, mayImportUsers: boolean): Checked {
  const start = text.replace(/^\uFEFF/, '')
  if (start.trim() === '') return { columns: [], isJson: false, problem: texts.empty }
  if (start.includes('\0')) return { columns: [], isJson: false, problem: texts.notText }
  if (/^\s*[[{]/.test(start)) return { columns: [], isJson: true }
  // Blank lines before the header are skipped. White space of its own line stays: a tab may be a delimiter.
  const columns = headerOf(start.replace(/^\s*[\r\n]/, ''))
  const problem = problemOf(columns, type)
  if (problem === undefined) return { columns, isJson: false }
  const other = importTypes.find((each) => each !== type && problemOf(columns, each) === undefined)
  const otherProblem = other && texts.otherType(texts.types[other], other !== 'users' || mayImportUsers)
  return { columns, isJson: false, problem: otherProblem ?? problem }
}

function problemOf(columns: readonly string[], type: ImportType): string | undefined {
  const { known, required, hasProperties } = importColumns[type]
  const fields = columns.map((name) => fieldOf(name, type))
  const unknown = columns.filter((_, at) => fields[at] === undefined)
  if (unknown.length > 0) return texts.unknownColumns(unknown, known, hasProperties)
  const twice = fields.find((field, at) => fields.indexOf(field) < at)
  if (twice !== undefined) return texts.twice(twice)
  const missing = required.find((name) => !fields.includes(name))
  return missing === undefined ? undefined : texts.missingColumn(missing)
}

const headBytes = 65_536
/** Bytes that are unpacked at a time: as many as follow the data of a gzip member (RFC 1952), so that no slice holds data of two. */
const sliceBytes = 8

/** The beginning of a file as text, unpacked if it is compressed. Throws a TypeError for bytes that are not UTF-8. */
export async function startOf(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.slice(0, headBytes).arrayBuffer())
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b
  // A piece of a file ends within a character as a rule: what is cut off must not count as wrong.
  const decode = (part: Uint8Array) =>
    new TextDecoder('utf-8', { ignoreBOM: true, fatal: true }).decode(part, { stream: true })
  if (!isGzip) return decode(bytes)
  return decode(await unpackStart(bytes))
}

/**
 * The beginning of what the first bytes of a gzip file hold. They are unpacked in small slices, because Safari refuses
 * whatever follows the first member, together with the output of the slice that has its end. Rejects when nothing can
 * be unpacked.
 */
async function unpackStart(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const { readable, writable } = new DecompressionStream('gzip')
  const writer = writable.getWriter()
  const write = async () => {
    for (let at = 0; at < bytes.length; at += sliceBytes) await writer.write(bytes.slice(at, at + sliceBytes))
    await writer.close()
  }
  // The reader gets the error.
  write().catch(() => undefined)
  const reader = readable.getReader()
  const parts: Uint8Array<ArrayBuffer>[] = []
  let length = 0
  try {
    while (length < headBytes) {
      const { value, done } = await reader.read()
      if (done) break
      parts.push(value)
      length += value.length
    }
  } catch (error) {
    // The end of the file is missing, as a rule.
    if (length === 0) throw error
  }
  reader.cancel().catch(() => undefined)
  return new Uint8Array(await new Blob(parts).arrayBuffer())
}
