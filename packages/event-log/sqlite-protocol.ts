/** What passes between the event log's thread and its SQLite worker; plain data only. */

export interface SqliteWorkerData {
  dir: string
  /** Number of partitions of a log that is made anew. */
  partitions: number
  /** Bound on the database file in bytes; appends above it fail as on a full disk. */
  fileBytesMax: number | undefined
  /** Bytes of the disk that appends leave free. */
  freeBytesMin: number
}

/** A block to append; its payload stands in the request's `data`, one after the other. */
export interface Append {
  partition: number
  headers: string
  bytes: number
}

export interface Commit {
  group: string
  partition: number
  nextOffset: number
}

export interface StoredBlock {
  offset: number
  appendedAt: number
  headers: string
  payload: Uint8Array<ArrayBuffer>
}

export interface Positions {
  /** By partition: the group's committed position, or the oldest block for a group that is new. */
  positions: number[]
}

/** The position after the newest block, by partition. */
export interface Ends {
  ends: number[]
}

export interface Opened extends Ends {
  id: string
  partitions: number
}

export interface Written extends Ends {
  /** Why the appends failed; the commits of the same request are stored nevertheless. */
  appendError: string | undefined
}

export interface RequestMap {
  write: { request: { appends: Append[]; data: ArrayBuffer; commits: Commit[] }; response: Written }
  read: { request: { partition: number; from: number; bytesMax: number }; response: { blocks: StoredBlock[] } }
  join: { request: { group: string }; response: Positions }
  ping: { request: object; response: object }
  /** The file is closed when the answer comes. */
  close: { request: object; response: object }
}

export type RequestKind = keyof RequestMap

export type WorkerRequest = {
  [Kind in RequestKind]: { call: number; kind: Kind } & RequestMap[Kind]['request']
}[RequestKind]

/** `opened` comes once, before any answer; then one answer for each request, in order. */
export type WorkerMessage =
  | { kind: 'opened'; opened: Opened }
  | { kind: 'failed'; error: string; locked: boolean }
  | { kind: 'answer'; call: number; response: RequestMap[RequestKind]['response'] }
  | { kind: 'refusal'; call: number; error: string }
