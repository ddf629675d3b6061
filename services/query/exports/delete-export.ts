import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { ExportFiles, ExportStore } from '@sluice/postgres/exports'
import { internalMessage, notFound } from '@sluice/runtime/errors'
import { visibleExport } from './visible-export.ts'

/**
 * DELETE /api/v1/exports/:export_id: deletes an export, or a schedule with its runs, and the files. A worker that is writing
 * one finds its lease gone. Throws 404 for a missing or hidden export.
 */
export function deleteExportRoute({
  exports,
  blobs,
}: {
  exports: Pick<ExportStore, 'find' | 'delete'>
  blobs: Pick<BlobStore, 'remove' | 'abortParts'>
}): Route {
  async function removeFiles({ objects, uploads }: ExportFiles): Promise<void> {
    await blobs.remove(objects)
    for (const upload of uploads) await blobs.abortParts(upload)
  }

  return handle(operations.deleteExport, async ({ params: { export_id: exportId }, credential, log }) => {
    log({ export_id: exportId })
    await visibleExport(exports, exportId, credential)
    const files = await exports.delete(exportId, credential.siteIds)
    if (!files) throw notFound('Export')
    // The export is deleted, whether its file can be removed now or not: the workers remove what nothing names.
    await removeFiles(files).catch((error: unknown) => {
      log({ file_not_removed: internalMessage(error) })
    })
  })
}
