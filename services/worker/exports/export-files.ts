import type { BlobStore } from '@sluice/blobs/blob-store'
import { exportLimits } from '@sluice/contracts/exports'
import { dayMs, hourMs } from '@sluice/contracts/time-units'
import type { ExportRecord } from '@sluice/postgres/export-records'
import { type ExportStore, exportStore } from '@sluice/postgres/exports'
import { type Clock, requireComparedClock } from '@sluice/runtime/clock'
import { poller } from '@sluice/runtime/poller'
import type { WorkerTask } from '../worker-task.ts'
import { exportPrefixes, parseExportBlobName } from './blob-names.ts'

const intervalMs = hourMs
/** An upload is noted in its export within moments. */
const unrecordedMsMax = hourMs
/** A file without a record stays for so long: this Postgres may be the wrong one, or restored from an old dump. */
const unknownMsMax = dayMs
const expiredMax = 500
const recordRetentionMs = exportLimits.recordRetentionDays * dayMs

export interface ExportFilesDeps {
  blobs: Pick<BlobStore, 'list' | 'remove' | 'listMultipartUploads' | 'abortMultipartUpload'>
  exports: Pick<ExportStore, 'find' | 'expire' | 'removeOldRecords'>
  clock: Pick<Clock, 'now' | 'isCompared'>
}

/**
 * Removes the files of exports whose time is over, which become `expired`, and what deleted or failed exports have
 * left: files, and uploads that no export continues. Files without a record go a day after they were written. Also
 * removes the records of old exports. Blobs whose name is not that of an export's file stay. Any number of processes
 * may do so at once. Throws the errors of `requireComparedClock`, and then removes nothing.
 */
export async function removeUnneededExportFiles({ blobs, exports, clock }: ExportFilesDeps): Promise<void> {
  requireComparedClock(clock)
  const now = clock.now()
  for (;;) {
    const names = await exports.expire(now, expiredMax)
    if (names.length === 0) break
    await blobs.remove(names)
  }
  for (const prefix of exportPrefixes) {
    for await (const { name, modifiedAt } of blobs.list(prefix)) {
      const exportId = parseExportBlobName(name)
      if (exportId === undefined) continue
      const record = await exports.find(exportId, null)
      // An attempt notes the name of its file before the file is there.
      const isKept =
        record === undefined
          ? modifiedAt >= now - unknownMsMax
          : record.object === name && (isUnfinished(record) || record.status === 'completed')
      if (!isKept) await blobs.remove([name])
    }
  }
  for await (const { startedAt, ...upload } of blobs.listMultipartUploads()) {
    const exportId = parseExportBlobName(upload.name)
    if (exportId === undefined || startedAt >= now - unrecordedMsMax) continue
    const record = await exports.find(exportId, null)
    const isUsed = record !== undefined && isUnfinished(record) && record.uploadId === upload.uploadId
    if (!isUsed) await blobs.abortMultipartUpload(upload)
  }
  // Last: on a large table this may take too long, which must not keep the files.
  while ((await exports.removeOldRecords(now - recordRetentionMs, expiredMax)) === expiredMax);
}

function isUnfinished({ status }: ExportRecord): boolean {
  return status === 'queued' || status === 'processing'
}

/** Looks every hour for files of exports that are no longer needed, and for old records. */
export const exportFiles: WorkerTask = ({ blobs, postgres }, { clock, logger }) =>
  poller({
    name: 'files of exports',
    intervalMs,
    poll: () => removeUnneededExportFiles({ blobs, exports: exportStore(postgres), clock }),
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'removal of unneeded export files failed, retrying')
    },
  })
