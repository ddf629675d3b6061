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
  /** Length of the payload in bytes. */
  bytes: number
  /** True when every row is undated with a client's `event_id`; blocks never mix the two kinds. */
  undated?: true
}
