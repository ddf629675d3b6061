import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { parse } from 'csv-parse'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { Failure, messageOf } from '../failure.ts'
import { isJsonObject } from '../json-object.ts'
import { readLines } from '../read-lines.ts'
import { RecordError, type SourceRecord } from './converted-event.ts'

export type FileKind = 'csv' | 'ndjson' | 'json list'

/** A record of a file, or why the text at its place is none. */
export type PlacedRecord = { line: number } & ({ record: SourceRecord; text?: string } | { error: string })

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
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    throw new Failure(isMissing ? `${path} does not exist.` : `${path} can't be read: ${messageOf(error)}`)
  }
}

/** SHA-256 of the text of a file, hexadecimal: the same however it is packed. */
export async function hashOfText(path: string): Promise<string> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of await openText(path)) hash.update(chunk as Uint8Array)
  } catch (error) {
    if (error instanceof Failure) throw error
    throw new Failure(`${path} can't be read to its end (${messageOf(error)}): export it again.`)
  }
  return hash.digest('hex')
}

/** The text of a file, unpacked when it is gzip. */
export async function openText(path: string): Promise<Readable> {
  const file = await open(path)
  const { bytesRead, buffer } = await file.read(Buffer.alloc(4), 0, 4, 0)
  await file.close()
  if (bytesRead >= 2 && buffer.subarray(0, 2).toString() === 'PK') {
    throw new Failure(`${path} is a ZIP archive: unpack it, and import the files in it.`)
  }
  const isGzip = bytesRead >= 2 && buffer[0] === 0x1f && buffer[1] === 0x8b
  const stream = createReadStream(path)
  if (!isGzip) return stream
  const unpacked = createGunzip()
  stream.on('error', (error) => unpacked.destroy(error))
  return stream.pipe(unpacked)
}

/** The kind of a file, by its first character. */
export async function kindOfFile(path: string): Promise<FileKind> {
  let head = ''
  const stream = await openText(path)
  for await (const chunk of stream) {
    head += String(chunk)
    if (head.trim() !== '' || head.length > firstBytes) break
  }
  stream.destroy()
  const [first] = head.replace(/^\uFEFF/, '').trimStart()
  if (first === undefined) throw new Failure(`${path} is empty.`)
  return first === '{' ? 'ndjson' : first === '[' ? 'json list' : 'csv'
}

/** The records of CSV with a header, or of NDJSON, with the lines at which they begin. */
export function readRecords(text: Readable, kind: 'csv' | 'ndjson'): AsyncGenerator<PlacedRecord> {
  return kind === 'csv' ? readCsv(text) : readNdjson(text)
}

async function* readNdjson(text: Readable): AsyncGenerator<PlacedRecord> {
  for await (const line of readLines(text, lineBytesMax)) {
    if (line.text === undefined) yield { line: line.number, error: line.error }
    else if (line.text.trim() !== '') yield { line: line.number, ...parseLine(line.text.replace(/^\uFEFF/, '')) }
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

async function* readCsv(text: Readable): AsyncGenerator<PlacedRecord> {
  const parser = parse({
    bom: true,
    columns: true,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: lineBytesMax,
  })
  text.on('error', (error) => parser.destroy(error))
  // The header is line 1, unless it has line breaks in it.
  let before = 1
  try {
    for await (const each of text.pipe(parser)) {
      const { record, info } = each as { record: SourceRecord; info: { lines: number } }
      yield { line: before + 1, record }
      before = info.lines
    }
  } catch (error) {
    if (error instanceof RecordError) throw error
    throw new Failure(`The file is not valid CSV (${messageOf(error)}): export it again.`)
  }
}
