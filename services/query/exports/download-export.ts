import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { exportFileName, exportMediaType } from '@sluice/contracts/export-files'
import { exportLimits } from '@sluice/contracts/exports'
import { handle } from '@sluice/http/handle'
import type { FileResult, Route } from '@sluice/http/route'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import { AppError, conflict } from '@sluice/runtime/errors'
import { requireVisibleExport } from './require-visible-export.ts'

/** Small exports take a few seconds, and asking costs little. */
const retryAfterSeconds = 5

/**
 * GET /api/v1/exports/:export_id/download: the file of an export, or of a schedule's latest completed run. Throws 404
 * for a missing or hidden export, 409 as long as there is no file or when there will be none, and 410 after it was
 * removed.
 */
export function downloadExportRoute({
  exports,
  blobs,
}: {
  exports: Pick<ExportStore, 'find' | 'latestCompletedRun'>
  blobs: Pick<BlobStore, 'read'>
}): Route {
  return handle(operations.downloadExport, async ({ params, credential, receivedAt, log }) => {
    const { export_id: exportId } = params
    log({ export_id: exportId })
    const found = await requireVisibleExport(exports, exportId, credential)
    if (!found.scheduled) return fileOf(found, blobs, receivedAt)
    const run = await exports.latestCompletedRun(exportId)
    // The run that was completed when the schedule was read has expired since, or was withdrawn or deleted.
    if (!run && found.status === 'completed') throw fileGone()
    return fileOf(run ?? found, blobs, receivedAt)
  })
}

/** Throws 409 or 410 for an export without a file. */
function fileOf(record: ExportRecord, blobs: Pick<BlobStore, 'read'>, now: number): FileResult {
  const { status, error, object, etag, bytes, expiresAt, spec, name, occurrence } = record
  switch (status) {
    case 'queued':
    case 'processing':
      throw new AppError('conflict', { message: 'The export is not ready', retryAfterSeconds })
    case 'failed':
      throw conflict(`The export failed${error === null ? '' : `: ${error}`}`)
    case 'cancelled':
      throw conflict('The export was cancelled')
    case 'expired':
      throw fileGone(error ?? undefined)
    case 'completed':
  }
  if (object === null || etag === null) throw new Error(`${record.exportId} is completed without a file`)
  if (expiresAt !== null && expiresAt <= now) throw fileGone()
  return {
    contentType: exportMediaType(spec),
    fileName: exportFileName(name, spec, occurrence ?? undefined),
    content: { size: bytes, etag },
    open: async (range) => {
      try {
        return await blobs.read(object, range)
      } catch (failure) {
        // The file was removed since its record was read.
        if (failure instanceof AppError && failure.code === 'not_found') throw fileGone()
        throw failure
      }
    },
  }
}

function fileGone(
  message = `The file of an export can be downloaded for ${exportLimits.fileRetentionDays} days`,
): AppError {
  return new AppError('gone', { message })
}
