import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { removeFiles } from '@sluice/blobs/remove-files'
import { handle } from '@sluice/http/handle'
import { removeOrLog } from '@sluice/http/remove-or-log'
import type { Route } from '@sluice/http/route'
import type { ExportStore } from '@sluice/postgres/exports'
import { requireFound } from '@sluice/runtime/errors'
import { requireVisibleExport } from './require-visible-export.ts'

/**
 * DELETE /api/v1/exports/:export_id: deletes an export, or a schedule with its runs, and the files. A worker that is
 * writing one finds its lease gone. Throws 404 for a missing or hidden export.
 */
export function deleteExportRoute({
  exports,
  blobs,
}: {
  exports: Pick<ExportStore, 'find' | 'delete'>
  blobs: Pick<BlobStore, 'remove' | 'abortMultipartUpload'>
}): Route {
  return handle(operations.deleteExport, async ({ params: { export_id: exportId }, credential, log }) => {
    log({ export_id: exportId })
    await requireVisibleExport(exports, exportId, credential)
    const files = requireFound(await exports.delete(exportId, credential.siteIds), 'Export')
    // The export is deleted, whether its file can be removed now or not: the workers remove what nothing names.
    await removeOrLog(removeFiles(blobs, files), log)
  })
}
