import type { BlobStore } from '@sluice/blobs/blob-store'
import { DiskFullError, waitsForFreeSpace } from '@sluice/blobs/disk-space'
import { isUploadConflict } from '@sluice/blobs/errors'
import type { Criteria, Filter } from '@sluice/contracts/conditions'
import {
  clickHouseCode,
  ClickHouseError,
  exceedsLimit,
  QueryTooLargeError,
} from '@sluice/event-store/clickhouse/errors'
import { refusedPatternPath, refusedPatternReason } from '@sluice/event-store/conditions'
import { LeaseLostError } from '@sluice/leases/lease-table'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import type { Clock } from '@sluice/runtime/clock'
import { internalMessage } from '@sluice/runtime/errors'
import { exportBlobName, uploadOf } from './blob-names.ts'

export interface ExportFailureDeps {
  exports: Pick<ExportStore, 'find' | 'dropFile' | 'leases'>
  blobs: Pick<BlobStore, 'remove' | 'abortMultipartUpload'>
  clock: Pick<Clock, 'now'>
}

/** What a unit does when it can't finish its part of the file. */
export interface ExportFailures {
  /** Fails the export permanently, with a text for users. */
  failFor(error: string, lease: Lease): Promise<UnitResult>
  /**
   * Removes what is written of a file from a full disk. The file begins again when there is free space: half-written
   * files that wait would leave no space for each other.
   */
  waitForFreeSpace(job: ExportRecord, lease: Lease): Promise<UnitResult>
  /**
   * Decides what follows after `error`. Resolves when the job waits or has failed permanently; otherwise throws, and the
   * unit is repeated (packages/leases/run-unit.ts). `criteria` are those of the export's cohort.
   */
  settle(error: unknown, unit: { job: ExportRecord; criteria: Criteria | undefined; lease: Lease }): Promise<UnitResult>
}

/** A file that was begun again so often is given up, because writing its parts again is no progress. */
export const restartsMax = 9
/** The pause between two looks at the disk. */
const freeSpacePauseMs = 60_000
const brokenFile =
  'The file could not be completed, and was started ten times: the store of files had lost a part of it.'
const diskFullText =
  'The disk of the store of files had no room for the file, which was started ten times. Choose a shorter range or a filter, or ask an operator for more room.'
const tooLarge =
  'The export asks for more than ClickHouse can read in its memory or within an hour: choose a shorter range or a filter.'

export function exportFailures({ exports, blobs, clock }: ExportFailureDeps): ExportFailures {
  async function failFor(error: string, lease: Lease): Promise<UnitResult> {
    await exports.leases.fail(lease, error, clock.now())
    return { next: 'done', log: { failed: error } }
  }

  /** Removes what is written of a file. Returns false when none was begun. */
  async function abortUpload(job: ExportRecord): Promise<boolean> {
    // The file may have been begun in this unit, after `job` was read.
    const upload = uploadOf((await exports.find(job.exportId, null)) ?? job)
    if (upload) await blobs.abortMultipartUpload(upload)
    return upload !== undefined
  }

  async function waitForFreeSpace(job: ExportRecord, lease: Lease): Promise<UnitResult> {
    if (await abortUpload(job)) {
      if (job.restarts >= restartsMax) return failFor(diskFullText, lease)
      await exports.dropFile(lease)
    }
    return { next: clock.now() + freeSpacePauseMs, log: { waits: waitsForFreeSpace } }
  }

  /** Removes the file of an export that was deleted during this unit: nobody takes it any more. */
  async function removeDeleted(job: ExportRecord, lease: Lease): Promise<void> {
    try {
      if ((await exports.find(job.exportId, null)) !== undefined) return
      const upload = uploadOf(job)
      if (upload) await blobs.abortMultipartUpload(upload)
      await blobs.remove([upload?.name ?? exportBlobName(lease)])
    } catch {
      // export-files.ts removes the file later.
    }
  }

  const settle: ExportFailures['settle'] = async (error, { job, criteria, lease }) => {
    if (error instanceof LeaseLostError || lease.signal.aborted) {
      await removeDeleted(job, lease)
      throw error
    }
    if (error instanceof DiskFullError) return waitForFreeSpace(job, lease)
    if (isUploadConflict(error)) {
      // The upload has ended, or another worker has replaced a part since it was recorded, so the file begins again.
      if (job.restarts >= restartsMax)
        return failFor(job.scheduleId === null ? `${brokenFile} Request the export again.` : brokenFile, lease)
      await abortUpload(job)
      await exports.dropFile(lease)
      throw error
    }
    if (error instanceof ClickHouseError && error.serverCode === clickHouseCode.timeoutExceeded) {
      // After an hour, a further attempt promises nothing.
      return failFor(tooLarge, lease)
    }
    if (exceedsLimit(error)) {
      // Not retryable, because such attempts are counted.
      throw new QueryTooLargeError('resources', { message: tooLarge, internal: internalMessage(error), cause: error })
    }
    const refusal = refusedPatternText(error, job.spec.filter, criteria)
    if (refusal !== undefined) return failFor(refusal, lease)
    throw error
  }

  return { failFor, waitForFreeSpace, settle }
}

/** The error for users when a statement failed because ClickHouse refuses a pattern; undefined for other failures. */
function refusedPatternText(error: unknown, filter: Filter = [], criteria?: Criteria): string | undefined {
  const filterPath = refusedPatternPath(error, filter)
  if (filterPath !== undefined) return `filter.${filterPath} ${refusedPatternReason}`
  const criteriaPath = criteria && refusedPatternPath(error, criteria)
  return criteriaPath === undefined ? undefined : `criteria.${criteriaPath} of the cohort ${refusedPatternReason}`
}
