import type { Readable } from 'node:stream'

/**
 * The name with which `check` begins an upload, and then drops it. A process that is killed during the check leaves the
 * upload.
 */
export const probeName = 'check'

/**
 * The store of the files of imports and exports. A blob is a sequence of bytes under a name. It exists completely or
 * not at all, also after a crash. Adapters: file/file-store.ts (a folder) and s3/s3-store.ts (a bucket of S3); both
 * pass conformance/conformance.ts.
 *
 * Sluice makes the names from ids, by the rule in rules.ts. A name must not be the folder of another one: if `a/b`
 * exists, `a` must not. Every function rejects with a TypeError for a name, a range or a list of parts that violates
 * the rules.
 *
 * Failures are AppErrors: `unavailable` (retryable) while the store can't be reached or its disk is full, `not_found`,
 * `range_not_satisfiable`, `conflict` (a multipart upload that can't be completed), and `internal` for failures that
 * only an operator can end. The text of `internal` then names the variable to check.
 */
export interface BlobStore {
  /**
   * Stores a blob, which replaces an earlier one with that name, and resolves when it is durable. If several writers
   * write one name concurrently, the blob of one of them is kept completely. The memory does not depend on the length
   * of the content.
   *
   * Rejects with the content's own error when reading the content fails, and with the signal's reason when that aborts;
   * then nothing is stored. After `unavailable`, the complete blob may be stored nevertheless: write it again or remove
   * it.
   */
  write(name: string, content: BlobContent, options?: { signal?: AbortSignal }): Promise<{ bytes: number }>
  /**
   * Opens a blob, or a range of its bytes. If a range ends after the end of the blob, the existing bytes are returned.
   * If it begins at the end of the blob or later, rejects with `range_not_satisfiable`. The stream never ends early but
   * fails with an AppError. The caller must read it to its end or destroy it.
   */
  read(name: string, range?: ByteRange): Promise<Readable>
  /** The blob's bytes; undefined when there is no such blob. */
  size(name: string): Promise<number | undefined>
  /** Removes blobs. Names without a blob are ignored. */
  remove(names: readonly string[]): Promise<void>
  /**
   * The blobs whose names begin with `prefix`, in no particular order; '' lists all. Names that violate the rules are
   * left out.
   */
  list(prefix: string): AsyncIterable<StoredBlob>

  /**
   * Begins a blob that is written in parts. Another process can continue it. Nothing is visible before
   * `completeMultipartUpload`.
   */
  createMultipartUpload(name: string): Promise<MultipartUpload>
  /**
   * Stores a part, whose number is from 1 to 10,000. Each part but the last has at least 5 MiB. The caller stores the `etag`. If a
   * part is written again, only its last etag is valid, because the store may have removed the earlier one. Rejects
   * with `conflict` when the upload was completed or aborted.
   */
  uploadPart(upload: MultipartUpload, partNumber: number, content: Uint8Array): Promise<{ etag: string }>
  /**
   * Creates the blob from the parts, in ascending order of their numbers. Other parts of the upload are dropped. The call may be
   * repeated: it resolves if a blob with the bytes of these parts exists already. Rejects with `conflict` when the
   * upload was aborted, or lacks a part.
   */
  completeMultipartUpload(upload: MultipartUpload, parts: readonly UploadedPart[]): Promise<void>
  /** Drops an upload and its parts. Does nothing if it was completed or aborted. */
  abortMultipartUpload(upload: MultipartUpload): Promise<void>
  /**
   * Lists the uploads that were neither completed nor aborted, including those of `write` in processes that were
   * killed. `startedAt`: Unix ms.
   */
  listMultipartUploads(): AsyncIterable<MultipartUpload & { startedAt: number }>

  /**
   * Resolves when blobs can be written and listed; rejects with the reason otherwise. Readiness checks call it, so it
   * must be cheap.
   */
  check(): Promise<void>
  /** The disk that holds the blobs; undefined when the store is not a folder, as in S3. */
  disk(): Promise<DiskSpace | undefined>
  /** Ends the connections. */
  close(): Promise<void>
}

/** The bytes of a blob in pieces. */
export type BlobContent = Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/** Positions of the first and the last byte, counted from 0. Both are included. */
export interface ByteRange {
  start: number
  end: number
}

/** A disk: the bytes that a process without special rights may still write, and the size of the disk. */
export interface DiskSpace {
  freeBytes: number
  sizeBytes: number
}

/** A blob in a listing. */
export interface StoredBlob {
  name: string
  bytes: number
  /** Unix ms; in S3, whole seconds. */
  modifiedAt: number
}

/** A blob that is written in parts. Another process needs only these two fields to continue. */
export interface MultipartUpload {
  name: string
  uploadId: string
}

/** A part that was uploaded, as `completeMultipartUpload` needs it. */
export interface UploadedPart {
  n: number
  etag: string
  bytes: number
}
