import type { BlobStore } from '@sluice/blobs/blob-store'
import { hasFreeSpace } from '@sluice/blobs/disk-space'
import type { ExportReader } from '@sluice/event-store/exports/export-reader'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { waitsForWriters } from '../waits-for-writers.ts'
import { uploadOf } from './blob-names.ts'
import { type ExportFailureDeps, exportFailures, restartsMax } from './export-failure.ts'
import { openExport, type SourceDeps } from './open-export.ts'
import type { StoredBlocks } from './stored-blocks.ts'
import { fileWriter, type FileWriterDeps } from './write-file.ts'

export type ExportUnitDeps = SourceDeps &
  FileWriterDeps &
  ExportFailureDeps & {
    reader: Pick<ExportReader, 'runnerFor'>
    blobs: Pick<BlobStore, 'disk'>
    storedBlocks: StoredBlocks
    watermarks: Pick<WatermarkStore, 'readCompleteTimes'>
  }

/**
 * Time in which the writers mostly store what was accepted before an export; longer waits give other jobs their turn.
 */
const storedWaitMs = 30_000
/** The pause before the writers are asked again. */
const pauseMs = 1_000
const erasedTooOften =
  'The file was started ten times, because each erasure of the site starts it again. Choose a shorter range or a filter, so that the file takes less time.'

/**
 * One unit of an export's work: the next pieces of the file, or all of a file that can't be resumed (write-file.ts). A
 * unit whose worker dies is repeated from the last recorded key, and its parts are written again. A unit that fails has
 * the outcome that export-failure.ts gives it.
 */
export function exportUnit(deps: ExportUnitDeps): (job: ExportRecord, lease: Lease) => Promise<UnitResult> {
  const { reader, blobs, clock } = deps
  const writePieces = fileWriter(deps)
  const failures = exportFailures(deps)

  /**
   * Whether everything that was answered 202 before the export is stored. Checked before the first byte, because a file
   * that lacks events would look complete. A run by time of receipt ends at a `complete_until`, before which everything
   * is stored. After a restore, however, the writers first have to store from the log what the backup lacks.
   */
  async function isStored(
    { createdAt: at, receivedFrom, receivedUntil, uploadId }: ExportRecord,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (receivedFrom !== null && receivedUntil !== null) {
      return (await deps.watermarks.readCompleteTimes()).all >= receivedUntil
    }
    if (uploadId !== null) return true
    const timeoutMs = Math.max(0, at + storedWaitMs - clock.now())
    // Blocks that came after the export's creation are not waited for any longer.
    if (timeoutMs === 0 && (await deps.watermarks.readCompleteTimes()).all > at) return true
    return deps.storedBlocks.wait({ signal, timeoutMs })
  }

  return async (job, lease) => {
    let criteria = job.cohortCriteria ?? undefined
    try {
      if (!(await isStored(job, lease.signal))) return { next: clock.now() + pauseMs, log: waitsForWriters }
      if (!(await hasFreeSpace(blobs, 0))) return await failures.waitForFreeSpace(job, lease)
      const opened = await openExport(deps, job, reader.runnerFor(lease.signal))
      if ('error' in opened) return await failures.failFor(opened.error, lease)
      criteria = opened.cohortCriteria
      if (uploadOf(job) === undefined && job.restarts > restartsMax)
        return await failures.failFor(erasedTooOften, lease)
      return await writePieces(job, opened, lease)
    } catch (error) {
      return failures.settle(error, { job, criteria, lease })
    }
  }
}
