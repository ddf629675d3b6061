import { gzipSync } from 'node:zlib'
import { refusalOf } from '@sluice/access/site-cache'
import type { ImportError } from '@sluice/contracts/imports'
import type { Environment } from '@sluice/contracts/scopes'
import type { Block } from '@sluice/event-log/block'
import { type BlockEncoder, blockEncoder, type LogRow } from '@sluice/event-log/encode-blocks'
import { type UserRow, userVersion } from '@sluice/event-store/insert/insert-users'
import { encodeImportedEvent, type EventImport, inTermsOfFiles } from '@sluice/imports/encode-imported-event'
import { parseImportedUser } from '@sluice/imports/parse-imported-user'
import { type RecordParser, recordParser } from '@sluice/imports/parse-record'
import type { SegmentRecord } from '@sluice/imports/segment-frames'
import { readSegment } from '@sluice/imports/segments'

/** The rows that the records of a segment become: events, or users. */
export type SegmentTask = EventTask | UserTask

/** The rows of a segment of events. */
export interface EventTask extends EventImport {
  type: 'events'
  /** How long the site keeps events, in ms; Infinity: for ever. */
  retentionMs: number
  /** Partitions of the log. */
  partitions: number
}

/** The rows of a segment of users. */
export interface UserTask {
  type: 'users'
  siteId: string
  environment: Environment
  /** The import's place in the order of creation. */
  seq: number
  /** Unix ms. */
  importedAt: number
}

/** Rows that are stored together: blocks for the log, or JSON lines of `UserRow`. */
export type RowBatch = { blocks: Block[]; users?: never } | { blocks?: never; users: Buffer }

/** The outcome of a segment. */
export interface SegmentOutcome {
  /** Records, those that failed included. */
  processed: number
  failed: number
  /**
   * The errors as NDJSON of `ImportError` in the order of the file, compressed with gzip; undefined: there are none.
   */
  errors: Buffer | undefined
}

/** A partition's share of a batch makes a full block, unless there are very many partitions. */
const batchBytesPerPartition = 512 * 1024
const batchBytesMax = 16 * 1024 * 1024
const userBatchBytes = 4 * 1024 * 1024

/** Encodes the rows of one type of import. */
interface RowEncoder {
  /** Encodes records, and appends the errors of those that are refused. */
  add(records: readonly SegmentRecord[], errors: ImportError[]): void
  /** Whether there is enough for a batch. */
  isFull(): boolean
  /** The rows since the last batch; undefined without any. */
  take(): RowBatch | undefined
}

/**
 * Reads a segment (`writeSegments`), and validates and encodes its records as `/collect` does. The same segment and
 * task make the same rows. Throws what `readSegment` and `recordParser` throw.
 */
export async function* encodeSegment(
  content: AsyncIterable<Uint8Array>,
  task: SegmentTask,
): AsyncGenerator<RowBatch, SegmentOutcome, undefined> {
  const { layout, records } = await readSegment(content)
  const parse = recordParser(layout, task.type)
  const encoder = task.type === 'events' ? eventEncoder(parse, task) : userEncoder(parse, task)
  const errors: ImportError[] = []
  let processed = 0
  for await (const read of records) {
    processed += read.length
    encoder.add(read, errors)
    const batch = encoder.isFull() ? encoder.take() : undefined
    if (batch) yield batch
  }
  const last = encoder.take()
  if (last) yield last
  return { processed, failed: errors.length, errors: errors.length === 0 ? undefined : gzipSync(toLines(errors)) }
}

function eventEncoder(parse: RecordParser, task: EventTask): RowEncoder {
  const { partitions, retentionMs, receivedAt } = task
  const bytesMax = Math.min(batchBytesPerPartition * partitions, batchBytesMax)
  let blocks: BlockEncoder | undefined
  let bytes = 0

  function encode(record: SegmentRecord, errors: ImportError[]): LogRow | undefined {
    const { value, error } = encodeImportedEvent(record, parse, task)
    if (error) errors.push(error)
    const refusal = value && refusalOf({ retentionMs }, value.timestamp, receivedAt)
    if (!refusal) return value
    const { field = 'timestamp_ms', message } = inTermsOfFiles(refusal)
    errors.push({ line: record.line, record: record.number, field, message })
    return undefined
  }

  return {
    add: (records, errors) => {
      const events = records.map((record) => encode(record, errors)).filter((event) => event !== undefined)
      if (events.length === 0) return
      // Each event has an id, so that its hash decides the partition.
      blocks ??= blockEncoder({ partitions, defaultPartition: 0 })
      bytes += blocks.add(events).bytes
    },
    isFull: () => bytes >= bytesMax,
    take: () => {
      const taken = blocks && { blocks: blocks.finish() }
      blocks = undefined
      bytes = 0
      return taken
    },
  }
}

function userEncoder(parse: RecordParser, { siteId, environment, seq, importedAt }: UserTask): RowEncoder {
  let lines: string[] = []
  let length = 0
  return {
    add: (records, errors) => {
      for (const record of records) {
        const { value, error } = parseImportedUser(record, parse)
        if (error) {
          errors.push(error)
          continue
        }
        const version = userVersion(seq, record.number)
        const row: UserRow = { site_id: siteId, environment, ...value, imported_at: importedAt, version }
        const line = `${JSON.stringify(row)}\n`
        lines.push(line)
        length += line.length
      }
    },
    isFull: () => length >= userBatchBytes,
    take: () => {
      const taken = lines.length === 0 ? undefined : { users: Buffer.from(lines.join('')) }
      lines = []
      length = 0
      return taken
    },
  }
}

function toLines(errors: readonly ImportError[]): string {
  return errors.map((error) => `${JSON.stringify(error)}\n`).join('')
}
