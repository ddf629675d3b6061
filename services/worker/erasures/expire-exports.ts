import type { BlobStore } from '@sluice/blobs/blob-store'
import type { ExportStore } from '@sluice/postgres/exports'

/**
 * Removes the files of a site's exports that were requested until `at` (Unix ms), and starts those again that are being made.
 * Called when nothing is left of what an erasure selects, possibly several times. Throws AppError, retryable while an engine
 * is away.
 */
export type ExpireExports = (siteId: string, at: number) => Promise<void>

/** What a call leaves when it dies half-way, files that no export names, is removed by exports/export-files.ts. */
export function expireExports({
  exports,
  blobs,
}: {
  exports: Pick<ExportStore, 'takeBack'>
  blobs: Pick<BlobStore, 'remove' | 'abortParts'>
}): ExpireExports {
  return async (siteId, at) => {
    const { objects, uploads } = await exports.takeBack(siteId, at)
    await blobs.remove(objects)
    for (const upload of uploads) await blobs.abortParts(upload)
  }
}
