import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream'
import { constants, createGunzip, createGzip, type Gunzip } from 'node:zlib'
import { importColumns } from '@sluice/contracts/import-columns'
import { importTypes } from '@sluice/contracts/imports'
import { invalidFormat, tooLarge } from '@sluice/runtime/errors'
import { fileLimits } from './file-limits.ts'
import type { FileLayout, FileRecord } from './file-record.ts'
import { splitRecords } from './record-splitter.ts'
import {
  frameBytes,
  FrameReader,
  headerFrame,
  recordFrames,
  type SegmentRecord,
  segmentVersion,
} from './segment-frames.ts'
import { unpack } from './unpack.ts'

/** A part of a file's records that is processed as one unit. */
export interface Segment {
  /** Number of the segment within the file, from 0. */
  n: number
  /** Number of the segment's first record within the file, from 1. */
  firstRecord: number
  /** Line of the file in which the segment's first record starts, from 1. */
  firstLine: number
  records: number
}

/** A file of an import after it was stored in segments. */
export interface SegmentedFile {
  layout: FileLayout
  /** Hexadecimal SHA-256 of the decompressed file. */
  sha256: string
  /** Number of all records, including those that can't be read. */
  totalRecords: number
  segments: Segment[]
}

/** Stores the content of the n-th segment. It must consume the content to its end, and reject when it fails. */
export type WriteSegment = (n: number, content: AsyncIterable<Uint8Array>) => Promise<void>

export interface SegmentLimits {
  segmentRecordsMax?: number
  segmentBytesMax?: number
  unpackedBytesMax?: number
  recordsMax?: number
}

/** The fastest level, because the upload waits for the compression. */
const gzipOptions = { level: constants.Z_BEST_SPEED, chunkSize: 64 * 1024 }

/** The field with the import's type may come after the file, so the text names the columns of each type. */
const headerAlone = `file holds no record: its only line is taken for the header, which names the columns (${importTypes
  .map((type) => `${importColumns[type].required.join(', ')} for ${type}`)
  .join('; ')})`

/**
 * Splits an uploaded file of CSV or JSON, with or without gzip, into segments while it is read. Passes the segments to
 * `write`, one after the other. Memory is constant.
 *
 * Throws the AppErrors of `unpack` and `splitRecords`, `invalid_format` for a file without a record, 413 for one with
 * more than `recordsMax`, and the errors of `file` and `write` unchanged. The caller removes the segments that were
 * already written. `recordParser` checks the header's columns against the import's type.
 */
export async function writeSegments(
  file: AsyncIterable<Uint8Array>,
  write: WriteSegment,
  limits: SegmentLimits = {},
): Promise<SegmentedFile> {
  const { segmentRecordsMax, segmentBytesMax, unpackedBytesMax, recordsMax } = { ...fileLimits, ...limits }
  const hash = createHash('sha256')
  async function* hashed(): AsyncGenerator<Buffer> {
    for await (const chunk of unpack(file, unpackedBytesMax)) {
      hash.update(chunk)
      yield chunk
    }
  }
  const { layout, records } = await splitRecords(hashed())
  const source = new RecordSource(records, recordsMax)
  const segments: Segment[] = []
  let totalRecords = 0
  try {
    for (let first = await source.peek(); first !== undefined; first = await source.peek()) {
      const segment: Segment = {
        n: segments.length,
        firstRecord: totalRecords + 1,
        firstLine: first.line,
        records: 0,
      }
      const frames = framesOf(source, {
        layout,
        segment,
        recordsMax: segmentRecordsMax,
        bytesMax: segmentBytesMax,
      })
      await writeCompressed(frames, (content) => write(segment.n, content))
      segments.push(segment)
      totalRecords += segment.records
    }
  } finally {
    // Not awaited: a client that sends nothing must not delay the failure of the store.
    void records.return(undefined).catch(() => undefined)
  }
  if (totalRecords === 0) throw invalidFormat(layout.format === 'csv' ? headerAlone : 'file holds no record')
  return { layout, sha256: hash.digest('hex'), totalRecords, segments }
}

/** Returns the records one after the other, from the lists in which they were found. */
class RecordSource {
  readonly #lists: AsyncIterator<FileRecord[]>
  readonly #recordsMax: number
  #list: FileRecord[] = []
  #at = 0
  /** Number of records in all lists so far. */
  #found = 0

  constructor(lists: AsyncIterator<FileRecord[]>, recordsMax: number) {
    this.#lists = lists
    this.#recordsMax = recordsMax
  }

  /** The next record; undefined after the last one. Throws 413 when more than `recordsMax` records were found. */
  async peek(): Promise<FileRecord | undefined> {
    while (this.#at === this.#list.length) {
      const next = await this.#lists.next()
      if (next.done) return undefined
      this.#found += next.value.length
      if (this.#found > this.#recordsMax) throw tooLarge(`File has more than ${this.#recordsMax} records: split it`)
      this.#list = next.value
      this.#at = 0
    }
    return this.#list[this.#at]
  }

  /** Takes as many records of the current list as the limits allow, and returns them with the bytes of their frames. */
  take(recordsMax: number, bytesMax: number): { records: FileRecord[]; bytes: number } {
    const start = this.#at
    let bytes = 0
    for (; this.#at < this.#list.length && this.#at - start < recordsMax; this.#at++) {
      const record = this.#list[this.#at]
      const more = record === undefined ? 0 : frameBytes(record)
      if (bytes + more > bytesMax) break
      bytes += more
    }
    return { records: this.#list.slice(start, this.#at), bytes }
  }
}

interface FrameOptions {
  layout: FileLayout
  /** The segment. Its `records` are counted while it is written. */
  segment: Segment
  recordsMax: number
  bytesMax: number
}

async function* framesOf(
  source: RecordSource,
  { layout, segment, recordsMax, bytesMax }: FrameOptions,
): AsyncGenerator<Buffer> {
  const header = headerFrame({ v: segmentVersion, layout, firstRecord: segment.firstRecord })
  yield header
  let written = header.length
  while ((await source.peek()) !== undefined) {
    const { records, bytes } = source.take(recordsMax - segment.records, bytesMax - written)
    if (records.length === 0) {
      if (segment.records === 0) throw new Error('a segment of an import must have room for a record')
      return
    }
    segment.records += records.length
    written += bytes
    yield recordFrames(records, bytes)
  }
}

/** If the frames fail, throws that error, and not the error that `write` derives from it. */
async function writeCompressed(
  frames: AsyncGenerator<Buffer>,
  write: (content: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<void> {
  let failure: { error: unknown } | undefined
  async function* observed(): AsyncGenerator<Buffer> {
    try {
      yield* frames
    } catch (error) {
      failure = { error }
      throw error
    }
  }
  const gzip = createGzip(gzipOptions)
  pipeline(observed(), gzip, () => undefined)
  try {
    await write(gzip)
    if (!gzip.readableEnded) throw new Error('a segment of an import was not stored to its end')
  } catch (error) {
    throw failure === undefined ? error : failure.error
  } finally {
    gzip.destroy()
  }
}

/** Writes the chunks one after the other. Its failures appear when `gunzip` is read. */
async function feed(gunzip: Gunzip, content: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const chunk of content) {
      const { promise: isRead, resolve, reject } = Promise.withResolvers<undefined>()
      gunzip.write(chunk, (error) => {
        if (error) reject(error)
        else resolve(undefined)
      })
      await isRead
    }
    gunzip.end()
  } catch (error) {
    gunzip.destroy(error instanceof Error ? error : new Error(String(error)))
  }
}

/** A stored segment while it is read. */
export interface OpenSegment {
  layout: FileLayout
  /** The records in the order of the file, in lists of those that were read together. */
  records: AsyncGenerator<SegmentRecord[]>
}

/**
 * Reads a segment that `writeSegments` wrote. When the next chunk of `content` is requested, the previous one has been
 * read, and its memory may be reused. Throws an Error for a damaged segment, and the errors of `content` unchanged.
 */
export async function readSegment(content: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<OpenSegment> {
  const gunzip = createGunzip({ chunkSize: gzipOptions.chunkSize })
  void feed(gunzip, content)
  const reader = new FrameReader()
  async function* read(): AsyncGenerator<SegmentRecord[]> {
    for await (const chunk of gunzip) yield reader.read(chunk as Buffer)
    reader.finish()
  }
  const records = read()
  const first: SegmentRecord[] = []
  while (reader.header === undefined) {
    const next = await records.next()
    if (next.done) throw new Error('a segment of an import is empty')
    first.push(...next.value)
  }
  async function* all(): AsyncGenerator<SegmentRecord[]> {
    try {
      if (first.length > 0) yield first
      for await (const found of records) if (found.length > 0) yield found
    } finally {
      await records.return(undefined)
    }
  }
  return { layout: reader.header.layout, records: all() }
}
