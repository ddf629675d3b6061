import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { type CsvError, parse, type Parser } from 'csv-parse'
import { foreignFiles } from '@sluice/contracts/foreign-files'
import { errorCode } from '@sluice/runtime/errors'
import { isJsonObject } from '@sluice/runtime/json-object'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { Failure, messageOf } from '../failure.ts'
import { readLines } from '../read-lines.ts'
import { RecordError, type SourceRecord } from './converted-event.ts'

export type FileKind = 'csv' | 'ndjson' | 'json list'

/**
 * A record of a file, or the reason why the text at its place is none. `line` is the line at which the record begins.
 * `idLine`, if present, is the line number from which its id is made. It must not change between versions, so that a
 * repeated import of a file has the same ids.
 */
export type PlacedRecord = { line: number; idLine?: number } & (
  { record: SourceRecord; text?: string } | { error: string }
)

const lineBytesMax = 4 * 1024 * 1024
const firstBytes = 64 * 1024

/** Size of a file in bytes. Throws a Failure for what is no file that can be read. */
export async function sizeOfFile(path: string): Promise<number> {
  try {
    const found = await stat(path)
    if (!found.isFile())
      throw new Failure(`${path} is not a file: give a CSV, JSON or NDJSON file, or - for standard input.`)
    await (await open(path)).close()
    return found.size
  } catch (error) {
    if (error instanceof Failure) throw error
    throw new Failure(
      errorCode(error) === 'ENOENT' ? `${path} does not exist.` : `${path} can't be read: ${messageOf(error)}`,
    )
  }
}

/** SHA-256 of the text of a file, hexadecimal: the same however it is packed. Rejects when `signal` aborts. */
export async function hashOfText(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  const text = await openText(path)
  try {
    for await (const chunk of text) {
      signal.throwIfAborted()
      hash.update(chunk as Uint8Array)
    }
  } catch (error) {
    signal.throwIfAborted()
    throw unreadable(path, error)
  }
  return hash.digest('hex')
}

function unreadable(path: string, error: unknown): Failure {
  return new Failure(`${path} can't be read to its end (${messageOf(error)}): export it again.`)
}

/** The text of a file, unpacked when it is gzip. */
async function openText(path: string): Promise<Readable> {
  const file = await open(path)
  const { bytesRead, buffer } = await file.read(Buffer.alloc(4), 0, 4, 0)
  await file.close()
  if (bytesRead >= 2 && buffer.subarray(0, 2).toString() === 'PK') {
    throw new Failure(
      `${path} is an Excel workbook or a ZIP archive: export the sheet as CSV in UTF-8, or unpack the archive and import its files.`,
    )
  }
  const isGzip = bytesRead >= 2 && buffer[0] === 0x1f && buffer[1] === 0x8b
  return isGzip ? Readable.from(unpack(path), { objectMode: false }) : createReadStream(path)
}

async function* unpack(path: string): AsyncGenerator<Buffer> {
  const packed = createReadStream(path)
  const unpacked = createGunzip()
  // The iteration below reports the failures of both streams.
  pipeline(packed, unpacked, () => undefined)
  try {
    for await (const chunk of unpacked) yield chunk as Buffer
    // Node ignores bytes after the last member, such as padding, so records there would be lost without an error.
    if (packed.bytesRead !== unpacked.bytesWritten) throw new Error('it has data after the end of its gzip')
  } finally {
    unpacked.destroy()
  }
}

/** The kind of a file, by its first character. Throws a Failure for a file that is no text. */
export async function kindOfFile(path: string): Promise<FileKind> {
  // Brotli has no magic number, but PostHog names such files so.
  if (path.endsWith('.br')) throw new Failure(`${path} is compressed with brotli: unpack it, or use gzip.`)
  const head = await readHead(path)
  const start = head.subarray(0, 8).toString('latin1')
  const foreign = foreignFiles.find(({ magic }) => start.startsWith(magic))
  if (foreign !== undefined) throw new Failure(`${path} ${foreign.problem}.`)
  const [first] = String(head)
    .replace(/^\uFEFF/, '')
    .trimStart()
  if (first === undefined) throw new Failure(`${path} is empty.`)
  return first === '{' ? 'ndjson' : first === '[' ? 'json list' : 'csv'
}

/** The first 64 KiB of the text of a file, or a little more. */
async function readHead(path: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  const stream = await openText(path)
  try {
    for await (const chunk of stream) {
      chunks.push(chunk as Buffer)
      bytes += (chunk as Buffer).length
      if (bytes >= firstBytes) break
    }
  } catch (error) {
    throw unreadable(path, error)
  }
  stream.destroy()
  return Buffer.concat(chunks)
}

/** The records of CSV with a header, or of NDJSON, with the lines at which they begin. */
export function readRecords(path: string, kind: 'csv' | 'ndjson'): AsyncGenerator<PlacedRecord> {
  return kind === 'csv' ? readCsv(path) : readNdjson(path)
}

async function* readNdjson(path: string): AsyncGenerator<PlacedRecord> {
  try {
    for await (const line of readLines(await openText(path), lineBytesMax)) {
      if (line.text === undefined) yield { line: line.number, error: line.error }
      else if (line.text.trim() !== '') yield { line: line.number, ...parseLine(line.text.replace(/^\uFEFF/, '')) }
    }
  } catch (error) {
    throw unreadable('The file', error)
  }
}

function parseLine(text: string): { record: SourceRecord; text: string } | { error: string } {
  try {
    const value = parseExactly(text)
    return isJsonObject(value) ? { record: value, text } : { error: 'is not a JSON object' }
  } catch {
    return { error: 'is not JSON' }
  }
}

/**
 * The records of CSV. Empty lines are left out. The lines are counted here, because csv-parse counts CRLF within quotes
 * twice and ignores empty lines before a record. They are counted in `on_record`, because after an error csv-parse
 * emits no more of the records that it has parsed.
 */
async function* readCsv(path: string): AsyncGenerator<PlacedRecord> {
  const head = await readHead(path)
  const isUtf16 = head[0] === 0xff && head[1] === 0xfe
  const [firstLineEnd] = /\r\n|[\r\n]/.exec(head.toString(isUtf16 ? 'utf16le' : 'utf8')) ?? []
  /** Lines of the header and of the records so far. */
  let filledLines = 0
  /** Empty lines before the record that is being read. */
  let emptyLines = 0
  /**
   * Lines as csv-parse counts them, from which ids are made. Earlier versions accepted only the line end of the first
   * line. If that was LF, csv-parse counted each later CRLF as two.
   */
  let idLines = 1
  let crlfAfterLf = 0
  const lineOfRecord = (): number => filledLines + parser.info.empty_lines + 1
  const parser: Parser = parse<PlacedRecord, { record: SourceRecord; raw: string }>({
    bom: true,
    columns: (names: string[]) => {
      // The text of the header is not given, but its line breaks are within its names.
      filledLines = 1 + countLineEnds(names.join(','))
      emptyLines = parser.info.empty_lines
      return names
    },
    on_record: ({ record, raw }, { error }) => {
      const place = { line: lineOfRecord(), idLine: idLines + 1 }
      // The text begins with the ends of the empty lines before the record, and ends with that of its own line.
      filledLines += countLineEnds(raw) - (parser.info.empty_lines - emptyLines)
      emptyLines = parser.info.empty_lines
      if (firstLineEnd === '\n' && raw.endsWith('\r')) crlfAfterLf++
      idLines = parser.info.lines + crlfAfterLf
      const isWhole = (error as CsvError | undefined) === undefined
      return isWhole ? { ...place, record } : { ...place, error: 'has another number of fields than the header' }
    },
    raw: true,
    // CR ends lines only where the first line ends so; elsewhere it may be within a field without quotes.
    record_delimiter: firstLineEnd === '\r' ? ['\r'] : ['\r\n', '\n'],
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: lineBytesMax,
  })
  const text = await openText(path)
  if (isUtf16) text.setEncoding('utf16le')
  text.on('error', (error) => parser.destroy(error))
  try {
    for await (const placed of text.pipe(parser)) yield placed as PlacedRecord
  } catch (error) {
    if (error instanceof RecordError) throw error
    // The number in a message of csv-parse is by its own count.
    const reason = messageOf(error).replace(/ at line \d+/, ` at line ${lineOfRecord()}`)
    throw new Failure(`The file is not valid CSV (${reason}): export it again.`)
  }
}

/** The ends of lines in a text, as the server counts them in CSV: LF, CRLF or CR. */
function countLineEnds(text: string): number {
  return text.match(/\r\n|[\r\n]/g)?.length ?? 0
}
