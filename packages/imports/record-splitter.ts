import { invalidFormat } from '@sluice/runtime/errors'
import { detectDelimiter, readHeader } from './csv-header.ts'
import { CsvScanner } from './csv-scanner.ts'
import { fileLimits } from './file-limits.ts'
import { carriageReturn, type FileLayout, type FileRecord, newline, type RecordScanner } from './file-record.ts'
import { JsonListScanner } from './json-list-scanner.ts'
import { isWhiteSpace, LineScanner } from './line-scanner.ts'

/** The records of a file, which are found while the file is read. */
export interface RecordFile {
  layout: FileLayout
  /**
   * The records in the order of the file, in lists of those that were found together. The caller must iterate it, or
   * call its `return`.
   */
  records: AsyncGenerator<FileRecord[]>
}

/**
 * Minimum number of bytes that are read before each scan. An incomplete record is scanned again together with the next
 * bytes, so many small reads would be slow.
 */
const blockBytesMin = 256 * 1024

const byteOrderMark = Buffer.from('\uFEFF')
const openBracket = 0x5b
const openBrace = 0x7b

/**
 * Finds the records of a file without reading their fields. The first byte that is not white space determines the
 * format: `[` is a JSON list, `{` is NDJSON, and anything else is CSV with a header. A byte order mark is ignored.
 * Memory is constant: one incomplete record, `blockBytes`, and the records that were returned last.
 *
 * Throws AppError `invalid_format` for a file of white space and for a bad header (`readHeader`). Throws the errors of
 * `bytes` unchanged. A bad record is an item with `error`.
 */
export async function splitRecords(bytes: AsyncIterable<Buffer>, blockBytes = blockBytesMin): Promise<RecordFile> {
  const reader = new BlockReader(bytes, blockBytes)
  try {
    while (reader.bytes.length < byteOrderMark.length && !reader.isLast) await reader.next(0)
    if (reader.bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark)) reader.drop(byteOrderMark.length)
    const { line, first } = await skipBlank(reader)
    if (first === openBracket) {
      return { layout: { format: 'json' }, records: scanAll(reader, new JsonListScanner(line)) }
    }
    if (first === openBrace) return { layout: { format: 'ndjson' }, records: scanAll(reader, new LineScanner(line)) }
    return await splitCsv(reader, line)
  } catch (error) {
    await reader.close()
    throw error
  }
}

async function splitCsv(reader: BlockReader, line: number): Promise<RecordFile> {
  while (firstLineEnd(reader.bytes) === -1 && !reader.isLast && reader.bytes.length <= fileLimits.recordBytesMax) {
    await reader.next(0)
  }
  const lineEnd = firstLineEnd(reader.bytes)
  const delimiter = detectDelimiter(reader.bytes.subarray(0, lineEnd === -1 ? undefined : lineEnd))
  const records = scanAll(reader, new CsvScanner(delimiter, line))
  const found = ((await records.next()).value ?? []) as FileRecord[]
  const [header, ...others] = found
  if (header === undefined) throw invalidFormat('file holds no record')
  const columns = readHeader(header, delimiter)
  return { layout: { format: 'csv', delimiter, columns }, records: prepend(others, records) }
}

/**
 * Drops the blank lines at the start of a file. Returns the number of the next line, and the first byte in it that is
 * not white space. Throws AppError `invalid_format` if there is none.
 */
async function skipBlank(reader: BlockReader): Promise<{ line: number; first: number | undefined }> {
  let line = 1
  let at = 0
  let lineStart = 0
  let previous: number | undefined
  for (;;) {
    for (; at < reader.bytes.length && isWhiteSpace(reader.bytes[at]); at++) {
      const byte = reader.bytes[at]
      if (byte === newline || byte === carriageReturn) {
        if (byte !== newline || previous !== carriageReturn) line++
        lineStart = at + 1
      }
      previous = byte
    }
    if (at < reader.bytes.length) break
    if (reader.isLast) throw invalidFormat('file holds no record')
    // A long line of white space is dropped in between, so that it does not fill the memory.
    const used = at - lineStart > fileLimits.recordBytesMax ? at : lineStart
    await reader.next(used)
    at -= used
    lineStart = 0
  }
  // The white space at the start of this line is kept, because a tab may be a delimiter.
  const first = reader.bytes[at]
  reader.drop(lineStart)
  return { line, first }
}

function firstLineEnd(bytes: Buffer): number {
  const ends = [bytes.indexOf(newline), bytes.indexOf(carriageReturn)].filter((end) => end !== -1)
  return ends.length === 0 ? -1 : Math.min(...ends)
}

async function* scanAll(reader: BlockReader, scanner: RecordScanner): AsyncGenerator<FileRecord[]> {
  try {
    for (;;) {
      const found: FileRecord[] = []
      const used = scanner.scan(reader.bytes, reader.isLast, found)
      if (found.length > 0) yield found
      if (reader.isLast) return
      await reader.next(used)
    }
  } finally {
    await reader.close()
  }
}

async function* prepend(first: FileRecord[], others: AsyncGenerator<FileRecord[]>): AsyncGenerator<FileRecord[]> {
  try {
    if (first.length > 0) yield first
    yield* others
  } finally {
    await others.return(undefined)
  }
}

/** Reads a stream block by block. Bytes that the caller has not used precede the next block. */
class BlockReader {
  bytes: Buffer = Buffer.alloc(0)
  /** Whether the stream ends with `bytes`. */
  isLast = false
  readonly #source: AsyncIterator<Buffer>
  readonly #blockBytes: number

  constructor(source: AsyncIterable<Buffer>, blockBytes: number) {
    this.#source = source[Symbol.asyncIterator]()
    this.#blockBytes = blockBytes
  }

  /** Drops the first `used` bytes and appends a block; less if the stream ends. */
  async next(used: number): Promise<void> {
    const parts: Buffer[] = [this.bytes.subarray(used)]
    let added = 0
    while (added < this.#blockBytes && !this.isLast) {
      const next = await this.#source.next()
      if (next.done) this.isLast = true
      else {
        parts.push(next.value)
        added += next.value.length
      }
    }
    this.bytes = Buffer.concat(parts)
  }

  drop(count: number): void {
    this.bytes = this.bytes.subarray(count)
  }

  async close(): Promise<void> {
    await this.#source.return?.()
  }
}
