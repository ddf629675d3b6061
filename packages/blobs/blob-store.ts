import type { Readable } from 'node:stream'

/** The name under which `check` begins an upload, which it drops; a process that is killed meanwhile leaves it. */
export const probeName = 'check'

/**
 * The store of the files of imports and exports. A blob is a sequence of bytes under a name; it is there as a whole or
 * not at all, also after a crash. Adapters: file/file-store.ts (a folder) and s3/s3-store.ts (a bucket of S3); both
 * pass conformance/conformance.ts.
 *
 * Names are made by Sluice from ids: rules.ts has the rule. A name must not be a folder of another one: beside `a/b`
 * there is no `a`. Every function rejects with a TypeError for a name, a range or a list of parts against the rules.
 *
 * Failures are AppErrors: `unavailable` (retryable) while the store can't be reached or its disk is full, `not_found`,
 * `range_not_satisfiable`, `conflict` (an upload in parts that can't be completed), and `internal` for what only an
 * operator can mend: `internal` then names the variable to check.
 */
export interface BlobStore {
  /**
   * Stores a blob, in place of an earlier one of that name, and resolves when it is durable. Concurrent writers of one
   * name: one of them wins as a whole. Memory does not depend on the length of the content.
   *
   * Rejects with the content's own error when reading it fails, and with the signal's reason when that is aborted; then
   * nothing is stored. After `unavailable`, the blob may be stored nevertheless, as a whole: write it again or remove
   * it.
   */
  write(name: string, content: BlobContent, options?: { signal?: AbortSignal }): Promise<{ bytes: number }>
  /**
   * Opens a blob, or the bytes of a range of it. A range that ends after the blob gives what is there, one that begins
   * after it rejects with `range_not_satisfiable`. The stream fails with an AppError, never ends early, and must be
   * read to its end or destroyed.
   */
  read(name: string, range?: ByteRange): Promise<Readable>
  /** The blob's bytes; undefined when there is no such blob. */
  size(name: string): Promise<number | undefined>
  /** Removes blobs; names without a blob are no error. */
  remove(names: readonly string[]): Promise<void>
  /**
   * The blobs whose name begins with `prefix`, in no particular order; '' lists all. Names against the rules are left
   * out.
   */
  list(prefix: string): AsyncIterable<StoredBlob>

  /**
   * Begins a blob that is written in parts, which another process can continue. Nothing is visible until completeParts.
   */
  beginParts(name: string): Promise<Upload>
  /**
   * Stores part `n`, from 1 to 10,000; each but the last has 5 MiB at least. The caller keeps the `etag`. When a part
   * is written again, its last etag counts: the store may have forgotten what belongs to an earlier one. Rejects with
   * `conflict` when the upload was completed or aborted.
   */
  writePart(upload: Upload, n: number, content: Uint8Array): Promise<{ etag: string }>
  /**
   * Makes the blob from the parts, in ascending order of `n`. Parts that are not named are dropped. The call may be
   * repeated: it resolves when a blob with the bytes of these parts is there already. Rejects with `conflict` when the
   * upload was aborted, or lacks a part.
   */
  completeParts(upload: Upload, parts: readonly UploadedPart[]): Promise<void>
  /** Drops an upload with its parts; one that was completed or aborted is no error. */
  abortParts(upload: Upload): Promise<void>
  /**
   * Lists the uploads that were begun and neither completed nor aborted, also by `write` in processes that were killed.
   */
  listUploads(): AsyncIterable<Upload & { startedAt: number }>

  /**
   * Resolves when blobs can be written and listed; rejects with the reason otherwise. It is cheap: readiness calls it.
   */
  check(): Promise<void>
  /** The disk that holds the blobs; undefined where the store is no folder, as in S3. */
  disk(): Promise<DiskSpace | undefined>
  /** Ends the connections. */
  close(): Promise<void>
}

/** The bytes of a blob in pieces. */
export type BlobContent = Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/** Positions of the first and the last byte, both included, counted from 0. */
export interface ByteRange {
  start: number
  end: number
}

/** A disk: what a process without special rights may still write, and its whole size. */
export interface DiskSpace {
  freeBytes: number
  sizeBytes: number
}

/** A blob in a listing. */
export interface StoredBlob {
  name: string
  bytes: number
  /** Unix ms; S3 counts in seconds. */
  modifiedAt: number
}

/** A blob that is written in parts: both fields are all that another process needs to continue. */
export interface Upload {
  name: string
  uploadId: string
}

/** A part that was uploaded, as `completeParts` needs it. */
export interface UploadedPart {
  n: number
  etag: string
  bytes: number
}
