import type { BlobStore } from '@sluice/blobs/blob-store'
import { removeFiles } from '@sluice/blobs/remove-files'
import type { ExportStore } from '@sluice/postgres/exports'

/**
 * Removes the files of a site's exports that were requested until `at` (Unix ms), and restarts exports that are being
 * made. Called when nothing is left of what an erasure selects, possibly several times. Throws AppError, retryable
 * while an engine is unavailable.
 */
export type ExpireExports = (siteId: string, at: number) => Promise<void>

/** If the process dies during a call, files may be left that no export names. exports/export-files.ts removes them. */
export function expireExports({
  exports,
  blobs,
}: {
  exports: Pick<ExportStore, 'withdraw'>
  blobs: Pick<BlobStore, 'remove' | 'abortParts'>
}): ExpireExports {
  return async (siteId, at) => {
    await removeFiles(blobs, await exports.withdraw(siteId, at))
  }
}
