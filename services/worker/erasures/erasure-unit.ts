import type { BlobStore } from '@sluice/blobs/blob-store'
import { removeFiles } from '@sluice/blobs/remove-files'
import type { EventEraser } from '@sluice/event-store/erasures/event-eraser'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ErasureRecord, ErasureStore } from '@sluice/postgres/erasures'
import type { ExportFiles, ExportStore } from '@sluice/postgres/exports'
import type { Clock } from '@sluice/runtime/clock'
import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'

export interface ErasureUnitDeps {
  erasures: Pick<ErasureStore, 'advance' | 'advanceDeleted' | 'complete' | 'listDeletable'>
  eraser: Pick<
    EventEraser,
    'storeTombstone' | 'waitForInserts' | 'count' | 'startDelete' | 'isDeleting' | 'retireTombstone'
  >
  exports: Pick<ExportStore, 'withdraw' | 'withdrawnFiles'>
  blobs: Pick<BlobStore, 'remove' | 'abortMultipartUpload'>
  clock: Pick<Clock, 'now'>
  /**
   * Interval in ms at which the rows of all waiting erasures are deleted together; 0: erasures do not wait for each
   * other.
   */
  deleteEveryMs: number
}

/** The pause between two looks at a deletion under way. It is long, because counting reads all events of a site. */
const pollMs = 30_000
/** The same pause where erasures do not wait for each other to delete together, as on one machine with few events. */
const immediatePollMs = 1_000
/** More than the clocks of two processes differ by. */
const clockDifferenceMs = 60_000
/** Erasures whose rows one statement deletes. */
export const erasuresPerStatementMax = 100

/**
 * One step of an erasure. Each can be repeated: when a worker dies in the middle, the next one takes the step.
 *
 * `tombstone`: from here on, inserts leave out what the erasure selects. Inserts that are already running are waited
 * for, so that the count includes their rows. `delete`: the rows of all counted erasures are deleted at once, because
 * each deletion rewrites a column of every part that it concerns. `verify`: the rows are counted until none is left.
 * Rows that ClickHouse has left are deleted again. Then nothing can write new files with such rows, and the exports that
 * may hold them are withdrawn. `done`: their files are removed.
 */
export function erasureUnit(deps: ErasureUnitDeps): (job: ErasureRecord, lease: Lease) => Promise<UnitResult> {
  const { erasures, eraser, exports, blobs, clock, deleteEveryMs } = deps
  const nextPoll = (): number => clock.now() + (deleteEveryMs === 0 ? immediatePollMs : pollMs)
  // Units that looked at the same moment would all begin the same deletion.
  const oneAtATime = concurrencyLimit(1)

  async function start(job: ErasureRecord, lease: Lease): Promise<UnitResult> {
    await eraser.storeTombstone(job)
    await eraser.waitForInserts(lease.signal)
    const { events, users } = await eraser.count(job)
    lease.signal.throwIfAborted()
    const isEmpty = events + users === 0
    await erasures.advance(lease, isEmpty ? 'verify' : 'delete', events)
    const next = isEmpty || deleteEveryMs === 0 ? 'now' : nextMultiple(clock.now(), deleteEveryMs)
    return { next, log: { step: job.step, events, users } }
  }

  /**
   * Deletes the rows of this erasure and of others that are first in turn. The deletion of one of them may have begun meanwhile.
   */
  async function deleteRows(job: ErasureRecord, lease: Lease): Promise<UnitResult> {
    if (await eraser.isDeleting()) return waitForClickHouse(job)
    const deletable = await erasures.listDeletable(erasuresPerStatementMax)
    if (deletable.some(({ erasureId }) => erasureId === job.erasureId)) {
      lease.signal.throwIfAborted()
      await eraser.startDelete(deletable)
      await erasures.advanceDeleted(deletable.map(({ erasureId }) => erasureId))
    }
    return { next: nextPoll(), log: { step: job.step, together: deletable.length } }
  }

  function waitForClickHouse({ step }: ErasureRecord): UnitResult {
    return { next: nextPoll(), log: { step, waits: 'for ClickHouse' } }
  }

  async function verify(job: ErasureRecord, lease: Lease): Promise<UnitResult> {
    const left = await eraser.count(job)
    if (left.events + left.users > 0) {
      if (await eraser.isDeleting()) return waitForClickHouse(job)
      await erasures.advance(lease, 'delete')
      return { next: nextPoll(), log: { step: job.step, ...left } }
    }
    await eraser.retireTombstone(job)
    const files = await exports.withdraw(job.siteId, clock.now())
    // Recorded before files are removed: if that fails, its repeats must not withdraw exports that were made since, from
    // what is left.
    await erasures.advance(lease, 'done')
    return finish(job, lease, files)
  }

  /** If this fails, files may be left that no export names. exports/export-files.ts removes them. */
  async function finish(job: ErasureRecord, lease: Lease, files: ExportFiles): Promise<UnitResult> {
    await removeFiles(blobs, files)
    lease.signal.throwIfAborted()
    // A worker of an earlier build could complete an erasure, lose the answer of Postgres, and take it again.
    await erasures.complete(lease, job.completedAt ?? clock.now())
    return { next: 'done', log: { step: job.step, erased: job.count } }
  }

  return async (job, lease) => {
    switch (job.step) {
      case 'tombstone':
        return start(job, lease)
      case 'delete':
        return oneAtATime(() => deleteRows(job, lease))
      case 'verify':
        return verify(job, lease)
      case 'done':
        // The exports were withdrawn after the request, but by another clock.
        return finish(job, lease, await exports.withdrawnFiles(job.siteId, job.requestedAt - clockDifferenceMs))
    }
  }
}

function nextMultiple(now: number, ms: number): number {
  return Math.ceil(now / ms) * ms
}
