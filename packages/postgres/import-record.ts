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
  /** When the upload began. */
  createdAt: Date
  /** When the upload was complete. It is the `received_at` of the rows. */
  acceptedAt: Date
  finishedAt: Date | null
}
