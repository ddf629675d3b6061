/** The log record's layout; a writer refuses a version it does not know. */
export const blockVersion = 1

/**
 * One record of the event log: rows of one partition, one JSON object (`EventRow`) a line, each line ended by `\n`.
 * The writer hands the payload to ClickHouse unparsed; what it must know stands in the headers.
 */
export interface Block {
  partition: number
  headers: BlockHeaders
  payload: Buffer
}

export interface BlockHeaders {
  v: typeof blockVersion
  /** Number of rows in the payload. */
  rows: number
  /** Length of the payload in bytes, before compression. */
  bytes: number
  /** How the log stores the payload; readers of the log get it as it was. Absent: as it is. */
  encoding?: 'zstd'
  /** True when every row is undated with a client's `event_id`; blocks never mix the two kinds. */
  undated?: true
  /** In the log of dead letters alone: why the rows are there. */
  letter?: DeadLetter
}

/** Why rows could not be stored; a label of the writer's metrics. */
export const deadLetterReasons = [
  /** No block of ours: a record that somebody else wrote, or broken headers. */
  'unreadable',
  /** The block has not the lines that its headers promise. */
  'row_count',
  /** The line is no JSON object. */
  'not_json',
  /** ClickHouse can't read the row. */
  'refused',
] as const

/** What the log of dead letters tells about a block besides its rows, which are kept byte for byte. */
export interface DeadLetter {
  reason: (typeof deadLetterReasons)[number]
  /** ClickHouse's error code, where it refused. */
  code?: number
  /** For people, at most `deadLetterTextMax` characters. */
  text: string
  /** Unix ms at which the writer gave the rows up. */
  at: number
  /** Where the block stands in the log of events; the offset in decimal. */
  partition: number
  offset: string
}

export const deadLetterTextMax = 500
