/** Messages between the event log's thread and its SQLite worker; plain data only. */

export interface SqliteWorkerData {
  dir: string
  /** Number of partitions of a new log. */
  partitions: number
  /** Limit of the database file in bytes. Appends beyond it fail as on a full disk. */
  fileBytesMax: number | undefined
  /** Bytes of the disk that appends must leave free. */
  freeBytesMin: number
  /** Older blocks are deleted when the log is opened, even if they were not read. */
  retentionMs: number | undefined
  /** Time from a deletion of blocks to the removal of their bytes from the files. */
  compactAfterMs: number
}

/**
 * A block to append; the request's `data` holds the payloads, one after the other, and `appendedAt` is the time of all
 * appends, in Unix ms.
 */
export interface Append {
  partition: number
  headers: string
  bytes: number
}

/** A committed offset to be stored: the one after the last block that the group has processed. */
export interface Commit {
  group: string
  partition: number
  nextOffset: number
}

/** A block as the file holds it, with its headers as JSON. */
export interface StoredBlock {
  offset: number
  appendedAt: number
  headers: string
  payload: Uint8Array<ArrayBuffer>
}

export interface CommittedOffsets {
  /** The group's committed offsets by partition; the oldest blocks' offsets for a new group. */
  committedOffsets: number[]
}

/** The offset after the newest block, by partition. */
export interface Ends {
  ends: number[]
}

/** The log of the file. */
export interface Opened extends Ends {
  id: string
  partitions: number
}

export interface Written extends Ends {
  /** Why the appends failed. The commits of the same request are stored nevertheless. */
  appendError: string | undefined
}

/** The requests to the thread with their responses, by kind. */
export interface RequestMap {
  write: {
    request: { appends: Append[]; appendedAt: number; data: ArrayBuffer; commits: Commit[] }
    response: Written
  }
  read: { request: { partition: number; from: number; bytesMax: number }; response: { blocks: StoredBlock[] } }
  committedOffsets: { request: { group: string }; response: CommittedOffsets }
  offsetsForTime: { request: { time: number }; response: { offsets: number[] } }
  replaceGroup: { request: { from: string; to: string }; response: object }
  keepOnlyGroup: { request: { group: string }; response: object }
  ping: { request: object; response: { hasSpace: boolean } }
  /** The file is closed before the response. */
  close: { request: object; response: object }
}

export type RequestKind = keyof RequestMap

/** A request to the thread; its response has the same `call`. */
export type WorkerRequest = {
  [Kind in RequestKind]: { call: number; kind: Kind } & RequestMap[Kind]['request']
}[RequestKind]

/** Why the file can't be opened. */
export interface OpeningFailure {
  error: string
  /** Another process has locked the file, or the file is damaged or no database. */
  reason: 'locked' | 'damaged' | 'other'
}

/** The worker sends `opened` once, then one response (`answer` or `refusal`) to each request, in order. */
export type WorkerMessage =
  | { kind: 'opened'; opened: Opened }
  | ({ kind: 'failed' } & OpeningFailure)
  | { kind: 'answer'; call: number; response: RequestMap[RequestKind]['response'] }
  | { kind: 'refusal'; call: number; error: string }
