import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { handle } from '@sluice/http/handle'
import { removeOrLog } from '@sluice/http/remove-or-log'
import type { Route } from '@sluice/http/route'
import { toImportResource } from '@sluice/postgres/import-resource'
import type { ImportStore } from '@sluice/postgres/imports'
import { requireFound } from '@sluice/runtime/errors'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { requireVisibleImport } from './require-visible-import.ts'

/**
 * POST /api/v1/imports/:import_id/cancel: cancels an import, and returns a finished one unchanged. Throws 404 for a
 * missing or hidden one.
 */
export function cancelImportRoute({
  imports,
  blobs,
  clock,
}: {
  imports: Pick<ImportStore, 'find' | 'cancel' | 'segments'>
  blobs: Pick<BlobStore, 'remove'>
  clock: Pick<SynchronizedClock, 'now'>
}): Route {
  /** No worker takes a cancelled import, so nobody else would remove its file. */
  async function removeFile(importId: string): Promise<void> {
    const segments = await imports.segments(importId)
    await blobs.remove(segments.map(({ object }) => object))
  }

  return handle(operations.cancelImport, async ({ params: { import_id: importId }, credential, log }) => {
    log({ import_id: importId })
    await requireVisibleImport(imports, importId, credential)
    const record = requireFound(await imports.cancel(importId, credential.siteIds, clock.now()), 'Import')
    if (record.status === 'cancelled') {
      // The import is cancelled, whether its file can be removed now or not.
      await removeOrLog(removeFile(importId), log)
    }
    return toImportResource(record)
  })
}
