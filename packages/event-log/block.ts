import { sum } from '@sluice/runtime/sum'

/** The log record's layout; a writer refuses a version it does not know. */
export const blockVersion = 1

/**
 * One record of the event log: rows of one partition, one JSON object (`EventRow`) a line, each line ended by `\n`.
 * The writer hands the payload to ClickHouse unparsed; the headers hold everything that the writer must know.
 */
export interface Block {
  partition: number
  headers: BlockHeaders
  payload: Buffer
}

/** Bytes of the payloads of blocks. */
export function payloadBytes(blocks: readonly Block[]): number {
  return sum(blocks.map(({ payload }) => payload.length))
}

/** The headers of a block's record (docs/decisions/002-exactly-once.md). */
export interface BlockHeaders {
  v: typeof blockVersion
  /** Number of rows in the payload. */
  rows: number
  /** Length of the payload in bytes, before compression. */
  bytes: number
  /** Encoding of the payload in the log, absent for none. Consumers get the payload decompressed. */
  encoding?: 'zstd'
  /** True when every row is undated with a client's `event_id`; blocks never mix the two kinds. */
  undated?: true
  /** The span of the publish in the form of W3C Trace Context, if it is sampled. */
  traceparent?: string
  /** Only in the log of dead letters: why the rows could not be stored. */
  letter?: DeadLetter
}

/** Why rows could not be stored; a label of the writer's metrics. */
export const deadLetterReasons = [
  /** The record is no block of Sluice: it comes from another program, or its headers are broken. */
  'unreadable',
  /** The number of lines differs from the headers'. */
  'row_count',
  /** The line is no JSON object. */
  'not_json',
  /** ClickHouse can't read the row. */
  'refused',
] as const

/** Description of a block in the log of dead letters; its rows are kept byte for byte. */
export interface DeadLetter {
  reason: (typeof deadLetterReasons)[number]
  /** ClickHouse's error code, where it refused. */
  code?: number
  /** Explanation for operators, at most `deadLetterTextMax` characters. */
  text: string
  /** Unix ms at which the writer stopped trying to store the rows. */
  at: number
  /** Partition and offset (in decimal) of the block in the log of events, or in the backfill log. */
  partition: number
  offset: string
  /** Set when the block came from the backfill log. */
  lane?: 'backfill'
}

/** Characters of the explanation in a dead letter. */
export const deadLetterTextMax = 500
