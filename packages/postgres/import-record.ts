import type { ImportStatus, ImportType } from '@sluice/contracts/imports'
import type { Environment } from '@sluice/contracts/scopes'

/** An import's record, which is also the worker's job. */
export interface ImportRecord {
  importId: string
  /** The order of creation. */
  seq: number
  siteId: string
  environment: Environment
  type: ImportType
  status: ImportStatus
  /** SHA-256 of the uncompressed file, in hex. */
  sha256: string
  totalRecords: number
  /** Records that were processed, including failed ones. */
  processedRecords: number
  failedRecords: number
  /** Why the import failed, for users. */
  error: string | null
  keyId: string
  /** Unix ms of the beginning of the upload. */
  createdAt: number
  /** Unix ms of the completion of the upload. It is the `received_at` of the rows. */
  acceptedAt: number
  /** Unix ms; null: the import is unfinished. */
  finishedAt: number | null
}
