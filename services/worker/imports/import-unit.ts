import { addAbortSignal, type Readable } from 'node:stream'
import type { SiteStore } from '@sluice/access/sites'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { hasFreeSpaceToImport, waitsForFreeSpace } from '@sluice/blobs/disk-space'
import { openIfExists } from '@sluice/blobs/open-if-exists'
import { dayMs } from '@sluice/contracts/time-units'
import { hasReached } from '@sluice/event-log/has-reached'
import type { EventLog } from '@sluice/event-log/log'
import { partitionsReadAtStart, requirePartitionsMultipleOf } from '@sluice/event-log/require-partitions-multiple-of'
import { writerGroup } from '@sluice/event-log/writer-group'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import { errorsName } from '@sluice/imports/blob-names'
import { LeaseLostError } from '@sluice/leases/lease-table'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ImportRecord } from '@sluice/postgres/import-record'
import type { ImportSegment, ImportStore } from '@sluice/postgres/imports'
import { placementShards, type ShardStore } from '@sluice/postgres/shards'
import type { EndOffsets } from '@sluice/postgres/tables'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Clock } from '@sluice/runtime/clock'
import { internalMessage, unavailable } from '@sluice/runtime/errors'
import { waitsForWriters } from '../waits-for-writers.ts'
import type { RowBatch, SegmentOutcome, SegmentTask } from './encode-segment.ts'
import type { ImportMetrics } from './metrics.ts'
import { type PublishPace, type UnitPace, WritersStalledError } from './publish-pace.ts'
import { type SegmentEncoder, unreadable } from './segment-encoder.ts'

export interface ImportUnitDeps {
  imports: Pick<ImportStore, 'find' | 'segments' | 'nextSegment' | 'recordSegment' | 'complete' | 'leases'>
  sites: Pick<SiteStore, 'findRegistered'>
  watermarks: Pick<WatermarkStore, 'isBackfillRead'>
  shards: Pick<ShardStore, 'readState'>
  blobs: Pick<BlobStore, 'read' | 'write' | 'remove' | 'disk'>
  log: Pick<EventLog, 'id' | 'partitions'>
  backfill: Pick<EventLog, 'partitions' | 'publish' | 'endOffsets' | 'committedOffsets'>
  inserter: Pick<EventInserter, 'storeId' | 'shards' | 'insertUsers'>
  encoder: SegmentEncoder
  pace: PublishPace
  clock: Clock
  metrics: Pick<ImportMetrics, 'rows'>
}

/** Only the import waits for these requests. */
const publishTimeoutMs = 30_000
const insertTimeoutMs = 60_000
/** The pause before an import that has to wait for something is looked at again. */
const pauseMs = 1_000

/**
 * One unit of an import's work: its next segment, or its end once all segments are done.
 *
 * The rows of a segment are published (events) or inserted (users) first, then its progress and the import's counts are
 * stored in one transaction, under the lease. So a segment whose worker dies is repeated whole, and stores nothing
 * twice: its rows are the same ones. An import is completed when the writers have stored its last block; its segments
 * are removed just before, as every one of them is recorded by then.
 */
export function importUnit(deps: ImportUnitDeps): (job: ImportRecord, lease: Lease) => Promise<UnitResult> {
  const { imports, blobs, backfill, clock, metrics } = deps

  async function importSegment(job: ImportRecord, segment: ImportSegment, lease: Lease): Promise<UnitResult> {
    const { signal } = lease
    // The errors of a segment are a file, and events may go to a log on the same disk.
    if (!(await hasFreeSpaceToImport(blobs))) {
      return { next: clock.now() + pauseMs, log: { waits: waitsForFreeSpace } }
    }
    // Writers of an earlier build do not read the backfill log, so the rows would wait there.
    if (job.type === 'events' && !(await deps.watermarks.isBackfillRead(await deps.log.id()))) {
      return { next: clock.now() + pauseMs, log: { waits: 'for writers that read the backfill log' } }
    }
    // Read before the blob is opened, because nothing would close the blob if this throws.
    const task = await taskOf(deps, job)
    const content = await openBlob(blobs, segment.object, signal)
    if (content === undefined) return failForMissingSegment(segment, lease)
    const pace = deps.pace.startUnit()
    const { processed, failed, errors } = await deps.encoder.encode(content, task, (batch) =>
      store(batch, pace, signal),
    )
    signal.throwIfAborted()
    if (processed !== segment.records) throw unreadable(`${segment.object} has ${processed} records`)
    const isPublished = job.type === 'events' && failed < processed
    await imports.recordSegment(lease, segment.n, {
      processed,
      failed,
      errorsObject: await writeErrors(job.importId, segment.n, errors, signal),
      // Requested after the last acknowledgement, so that every block of the segment is below these offsets.
      publishedEndOffsets: isPublished ? fromEndOffsets(await backfill.endOffsets()) : null,
    })
    const { type } = job
    metrics.rows.inc({ type, result: 'accepted' }, processed - failed)
    metrics.rows.inc({ type, result: 'failed' }, failed)
    return { next: 'now', log: { segment: segment.n, records: processed, failed } }
  }

  async function store({ blocks, users }: RowBatch, pace: UnitPace, signal: AbortSignal): Promise<void> {
    if (blocks === undefined) {
      signal.throwIfAborted()
      await deps.inserter.insertUsers([users], { timeoutMs: insertTimeoutMs })
      return
    }
    await pace.waitUntilClear(blocks, { signal })
    await requirePlacement(deps)
    signal.throwIfAborted()
    await backfill.publish(blocks, { timeoutMs: publishTimeoutMs })
  }

  /** Returns the name of the blob; null without errors. They are removed by import-files.ts, long after the import. */
  async function writeErrors(
    importId: string,
    n: number,
    errors: SegmentOutcome['errors'],
    signal: AbortSignal,
  ): Promise<string | null> {
    if (errors === undefined) return null
    const name = errorsName(importId, n)
    await blobs.write(name, [errors], { signal })
    return name
  }

  async function failForMissingSegment({ firstLine }: ImportSegment, lease: Lease): Promise<UnitResult> {
    const text =
      `The uploaded file is no longer there from line ${firstLine} on. ` +
      'Import it again: events that are stored already are not stored twice.'
    await imports.leases.fail(lease, text, clock.now())
    await removeSegments(lease.id)
    return { next: 'done', log: { failed_at_line: firstLine } }
  }

  async function finish(lease: Lease): Promise<UnitResult> {
    const segments = await imports.segments(lease.id)
    if (!(await areStored(deps, segments))) return { next: clock.now() + pauseMs, log: waitsForWriters }
    // import-files.ts later removes the files that can't be removed now.
    const problem = await blobs.remove(segments.map(({ object }) => object)).catch(internalMessage)
    await imports.complete(lease, clock.now())
    return { next: 'done', ...(problem !== undefined && { log: { file_not_removed: problem } }) }
  }

  async function removeSegments(importId: string): Promise<void> {
    const segments = await imports.segments(importId)
    await blobs.remove(segments.map(({ object }) => object))
  }

  /** Removes the segments of an import that was cancelled during this unit: nobody takes it any more. */
  async function removeCancelled(importId: string): Promise<void> {
    try {
      if ((await imports.find(importId, null))?.status === 'cancelled') await removeSegments(importId)
    } catch {
      // import-files.ts removes the segments later.
    }
  }

  return async (job, lease) => {
    try {
      const next = await imports.nextSegment(job.importId)
      return next === undefined ? await finish(lease) : await importSegment(job, next, lease)
    } catch (error) {
      if (error instanceof LeaseLostError || lease.signal.aborted) await removeCancelled(job.importId)
      // The segment is repeated: what was published of it is stored once.
      if (error instanceof WritersStalledError) return { next: clock.now() + pauseMs, log: waitsForWriters }
      throw error
    }
  }
}

async function taskOf(
  { sites, log, backfill }: Pick<ImportUnitDeps, 'sites' | 'log' | 'backfill'>,
  { type, siteId, environment, seq, sha256, acceptedAt: receivedAt }: ImportRecord,
): Promise<SegmentTask> {
  if (type === 'users') return { type, siteId, environment, seq, importedAt: receivedAt }
  const [partitions, live] = await Promise.all([backfill.partitions(), log.partitions()])
  // Copies of an event that go through both logs must be in partitions of the same number.
  if (partitions !== live) {
    throw unavailable(`The backfill log has ${partitions} partitions, the log ${live}. Run "npm run migrate".`)
  }
  // An unknown site keeps imported events without a limit of time, as it keeps collected ones.
  const retentionDays = (await sites.findRegistered([siteId])).get(siteId) ?? Infinity
  return { type, siteId, environment, receivedAt, sha256, retentionMs: retentionDays * dayMs, partitions }
}

/**
 * Throws while events would be placed on other shards than by the hash of their ids. Called before each publish,
 * because the unit may have waited for long.
 */
async function requirePlacement({
  backfill,
  inserter,
  shards,
}: Pick<ImportUnitDeps, 'backfill' | 'inserter' | 'shards'>): Promise<void> {
  const recorded = (await shards.readState()) ?? { number: await inserter.shards(), doublingSince: null }
  const partitions = await backfill.partitions()
  try {
    requirePartitionsMultipleOf(placementShards(recorded), partitions)
  } catch (error) {
    throw unavailable(`${internalMessage(error)} ${partitionsReadAtStart}`, error)
  }
}

/** Opens a blob that is destroyed when `signal` aborts; undefined when there is no blob with that name. */
export async function openBlob(
  blobs: Pick<BlobStore, 'read'>,
  name: string,
  signal: AbortSignal,
): Promise<Readable | undefined> {
  const content = await openIfExists(blobs, name)
  if (content === undefined) return undefined
  // With a signal that is already aborted, `addAbortSignal` would emit an error that nobody listens to, which ends the
  // process.
  if (signal.aborted) content.destroy()
  signal.throwIfAborted()
  return addAbortSignal(signal, content)
}

/** Whether the writers have stored every block that the segments published, or made dead letters of its rows. */
async function areStored(
  { backfill, inserter }: Pick<ImportUnitDeps, 'backfill' | 'inserter'>,
  segments: readonly ImportSegment[],
): Promise<boolean> {
  const published = segments.flatMap(({ publishedEndOffsets: ends }) => (ends === null ? [] : [toEndOffsets(ends)]))
  if (published.length === 0) return true
  const committed = await backfill.committedOffsets(writerGroup(await inserter.storeId()))
  return published.every((endOffsets) => hasReached(committed, endOffsets))
}

function toEndOffsets(stored: EndOffsets): ReadonlyMap<number, bigint> {
  return new Map(Object.entries(stored).map(([partition, end]) => [Number(partition), BigInt(end)]))
}

function fromEndOffsets(endOffsets: readonly bigint[]): EndOffsets {
  return Object.fromEntries(endOffsets.map((end, partition) => [partition, String(end)]))
}
