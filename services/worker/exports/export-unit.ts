import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import type { BlobStore, Upload, UploadedPart } from '@sluice/blobs/blob-store'
import { DiskFullError, hasFreeSpace, waitsForFreeSpace } from '@sluice/blobs/disk-space'
import { partBytes } from '@sluice/blobs/part-bytes'
import type { Criteria, Filter } from '@sluice/contracts/conditions'
import { type EventKey, exportLimits } from '@sluice/contracts/exports'
import { dayMs } from '@sluice/contracts/time-units'
import type { ByteResult } from '@sluice/event-store/clickhouse/client'
import {
  clickHouseCode,
  ClickHouseError,
  exceedsLimit,
  QueryTooLargeError,
} from '@sluice/event-store/clickhouse/errors'
import { refusedPatternPath, refusedPatternReason } from '@sluice/event-store/conditions'
import type { ExportReader } from '@sluice/event-store/exports/export-reader'
import type { ExportSlice } from '@sluice/event-store/exports/source'
import { LeaseLost } from '@sluice/leases/lease-table'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Clock } from '@sluice/runtime/clock'
import { AppError, internalMessage } from '@sluice/runtime/errors'
import { sum } from '@sluice/runtime/sum'
import { exportBlobName } from './blob-names.ts'
import { compressor, type FileFrame, fileFrame, isResumable } from './file-format.ts'
import type { ExportMetrics } from './metrics.ts'
import { type OpenedExport, openExport, type SourceDeps } from './open-export.ts'
import { partBuffer, partWriter } from './part-writer.ts'
import { readAhead } from './read-ahead.ts'
import { recentMembers } from './recent-members.ts'
import type { StoredBlocks } from './stored-blocks.ts'

export interface ExportUnitDeps extends SourceDeps {
  exports: Pick<ExportStore, 'find' | 'parts' | 'beginFile' | 'dropFile' | 'recordParts' | 'complete' | 'leases'>
  reader: Pick<ExportReader, 'runner' | 'read'>
  blobs: Pick<BlobStore, 'write' | 'remove' | 'beginParts' | 'writePart' | 'completeParts' | 'abortParts' | 'disk'>
  storedBlocks: StoredBlocks
  watermarks: Pick<WatermarkStore, 'completeUntil'>
  clock: Pick<Clock, 'now'>
  metrics: ExportMetrics
  /** Other jobs get their turn after this many ms; tests make it short. */
  unitMs?: number
}

/**
 * Time in which the writers mostly store what was accepted before an export; longer waits give other jobs their turn.
 */
const storedWaitMs = 30_000
/** The pause before the writers are asked again. */
const pauseMs = 1_000
/** The pause between two looks at the disk. */
const freeSpacePauseMs = 60_000
const unitMsDefault = 10_000
/** A file that was begun again so often is given up, because writing its parts again is no progress. */
const restartsMax = 9
const brokenFile = 'The file could not be completed, and was begun ten times: the store of files had lost a part of it.'
const diskFullText =
  'The disk of the store of files had no room for the file, which was begun ten times. Choose a shorter range or a filter, or ask an operator for more room.'
const erasedTooOften =
  'The file was begun ten times, because each erasure of the site begins it anew. Choose a shorter range or a filter, so that the file takes less time.'
const tooLarge =
  'The export asks for more than ClickHouse can read in its memory or within an hour: choose a shorter range or a filter.'
const fileKeptMs = exportLimits.fileKeptDays * dayMs

/** How far a file has been written. */
interface Position {
  rows: number
  afterKey: EventKey | undefined
  progress: number
  /** Whether the file is at its end. */
  hasEnded: boolean
}

const fileStart = { rows: 0, afterKey: undefined, progress: 0 }

/** A slice whose rows ClickHouse has, in memory or on its disk. */
interface ReadSlice extends Omit<ExportSlice, 'rows'> {
  read: ByteResult
}

/**
 * One unit of an export's work: the next pieces of the file, or all of a file that can't be resumed. A piece is as many
 * slices as make a part; it counts once it is recorded under the lease. A unit whose worker dies is repeated from the
 * last recorded key, and its parts are written again.
 */
export function exportUnit(deps: ExportUnitDeps): (job: ExportRecord, lease: Lease) => Promise<UnitResult> {
  const { exports, reader, blobs, clock, metrics, unitMs = unitMsDefault } = deps
  const membersOf = recentMembers()

  /** Writes parts as long as enough of the disk stays free. */
  const guarded: Pick<BlobStore, 'writePart'> = {
    writePart: async (upload, n, content) => {
      if (!(await hasFreeSpace(blobs, content.length))) throw new DiskFullError()
      return blobs.writePart(upload, n, content)
    },
  }

  /**
   * Whether everything that was answered 202 before the export is stored. Checked before the first byte, because a file
   * that lacks events would look complete. A run by time of receipt ends at a `complete_until`, before which everything
   * is stored. After a restore, however, the writers first have to store from the log what the backup lacks.
   */
  async function isStored(
    { createdAt, receivedFrom, receivedUntil, uploadId }: ExportRecord,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (receivedFrom !== null && receivedUntil !== null) {
      return (await deps.watermarks.completeUntil()).all >= receivedUntil.getTime()
    }
    if (uploadId !== null) return true
    const at = createdAt.getTime()
    const timeoutMs = Math.max(0, at + storedWaitMs - clock.now())
    // Blocks that came after the export's creation are not waited for any longer.
    if (timeoutMs === 0 && (await deps.watermarks.completeUntil()).all > at) return true
    return deps.storedBlocks.wait({ signal, timeoutMs })
  }

  async function beginFile(lease: Lease, cohortCriteria: Criteria | undefined): Promise<Upload> {
    const upload = await blobs.beginParts(exportBlobName(lease))
    try {
      await exports.beginFile(lease, { object: upload.name, uploadId: upload.uploadId, cohortCriteria })
    } catch (error) {
      // No record names the upload. If it can't be aborted, export-files.ts aborts it later.
      if (error instanceof LeaseLost) await blobs.abortParts(upload).catch(() => undefined)
      throw error
    }
    return upload
  }

  async function writePieces(
    job: ExportRecord,
    { source, cohortCriteria }: OpenedExport,
    lease: Lease,
  ): Promise<UnitResult> {
    const { exportId, spec } = job
    const begun = uploadOf(job)
    if (begun === undefined && job.restarts > restartsMax) return failFor(erasedTooOften, lease)
    const upload = begun ?? (await beginFile(lease, cohortCriteria))
    // A new file begins with the first row, however far an earlier one went.
    const written = begun ? { rows: job.rows, afterKey: job.afterKey ?? undefined, progress: job.progress } : fileStart
    const recorded = await exports.parts(exportId)
    const unitEndsAt = clock.now() + unitMs
    const isOver = (): boolean => clock.now() >= unitEndsAt
    const format = { format: spec.format, isCsvSafe: spec.csv_safe }
    const ended = new AbortController()
    const signal = AbortSignal.any([lease.signal, ended.signal])
    const slices = readAhead(
      source.slices(written.afterKey, (select) => membersOf(upload.name, select)),
      async ({ rows, ...slice }): Promise<ReadSlice> => ({ ...slice, read: await reader.read(rows, format, signal) }),
      // ClickHouse closes the connection of a result that nobody reads for 30 s. Writing a slice may take longer, and a
      // file that can't be resumed would then begin again without end.
      ({ allowsReadAhead }) => allowsReadAhead && isResumable(spec) && !isOver(),
    )
    const buffer = partBuffer()
    const position: Position = { ...written, hasEnded: false }
    try {
      for (;;) {
        const firstPart = recorded.length + 1
        const writer = partWriter(guarded, upload, { firstPart, buffer, signal: lease.signal })
        const isFull = (): boolean => isResumable(spec) && writer.bytes >= partBytes(firstPart)
        const content = contentOf(fileFrame(spec, source.columns), slices, { position, isFull })
        const rowsBefore = position.rows
        const write = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
          for await (const chunk of chunks) await writer.write(chunk)
        }
        const compress = compressor(spec)
        if (compress) await pipeline(content, compress, write, { signal: lease.signal })
        else await write(content)
        const parts = await writer.end()
        recorded.push(...parts)
        metrics.rows.inc(position.rows - rowsBefore)
        metrics.bytes.inc(writer.bytes)

        const { rows, afterKey, progress, hasEnded } = position
        if (hasEnded) return await finish({ job, upload, parts: recorded, rows }, lease)
        if (afterKey === undefined) throw new Error('the slice has no end')
        await exports.recordParts(lease, { parts, afterKey, rows, progress })
        if (isOver()) return { next: 'now', log: { export_rows: rows - written.rows } }
      }
    } finally {
      // A slice that was read ahead is no longer needed.
      ended.abort()
      await slices.return(undefined)
    }
  }

  /** Yields the bytes of the next slices before compression, and notes how far they go. */
  async function* contentOf(
    { head, separator, tail }: FileFrame,
    slices: AsyncGenerator<ReadSlice>,
    { position, isFull }: { position: Position; isFull: () => boolean },
  ): AsyncGenerator<Uint8Array> {
    if (position.afterKey === undefined && head !== '') yield Buffer.from(head)
    for (let next = await slices.next(); !next.done; next = await slices.next()) {
      const { read, until, progress } = next.value
      if (read.rows > 0 && position.rows > 0 && separator !== '') yield Buffer.from(separator)
      yield* read.bytes
      position.rows += read.rows
      position.afterKey = until
      position.progress = progress
      if (isFull()) return
    }
    position.hasEnded = true
    yield Buffer.from(tail(position.rows > 0))
  }

  async function finish(
    { job, upload, parts, rows }: { job: ExportRecord; upload: Upload; parts: UploadedPart[]; rows: number },
    lease: Lease,
  ): Promise<UnitResult> {
    lease.signal.throwIfAborted()
    const bytes = sum(parts.map((part) => part.bytes))
    // Completing an upload in a folder copies its parts, which needs as much free space again.
    if (!(await hasFreeSpace(blobs, bytes))) throw new DiskFullError()
    if (parts.length > 0) await blobs.completeParts(upload, parts)
    else {
      // An upload needs a part.
      await blobs.write(upload.name, nothing(), { signal: lease.signal })
      await blobs.abortParts(upload)
    }
    const now = clock.now()
    const etag = etagOf(job.exportId, parts)
    await exports.complete(lease, { rows, bytes, etag, expiresAt: now + fileKeptMs }, now)
    return { next: 'done', log: { export_rows: rows, file_bytes: bytes } }
  }

  async function failFor(error: string, lease: Lease): Promise<UnitResult> {
    await exports.leases.fail(lease, error, clock.now())
    return { next: 'done', log: { failed: error } }
  }

  /** Removes what is written of a file. Returns false when none was begun. */
  async function abortUpload(job: ExportRecord): Promise<boolean> {
    // The file may have been begun in this unit, after `job` was read.
    const upload = uploadOf((await exports.find(job.exportId, null)) ?? job)
    if (upload) await blobs.abortParts(upload)
    return upload !== undefined
  }

  /**
   * Removes what is written of a file from a full disk. The file begins again when there is free space: half-written
   * files that wait would leave no space for each other.
   */
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
      if (upload) await blobs.abortParts(upload)
      await blobs.remove([upload?.name ?? exportBlobName(lease)])
    } catch {
      // export-files.ts removes the file later.
    }
  }

  return async (job, lease) => {
    let criteria = job.cohortCriteria ?? undefined
    try {
      if (!(await isStored(job, lease.signal)))
        return { next: clock.now() + pauseMs, log: { waits: 'for the writers' } }
      if (!(await hasFreeSpace(blobs, 0))) return await waitForFreeSpace(job, lease)
      const opened = await openExport(deps, job, reader.runner(lease.signal))
      if ('error' in opened) return await failFor(opened.error, lease)
      criteria = opened.cohortCriteria
      return await writePieces(job, opened, lease)
    } catch (error) {
      if (error instanceof LeaseLost || lease.signal.aborted) await removeDeleted(job, lease)
      else if (error instanceof DiskFullError) return waitForFreeSpace(job, lease)
      else if (error instanceof AppError && error.code === 'conflict') {
        // The upload has ended, or another worker has replaced a part since it was recorded, so the file begins again.
        if (job.restarts >= restartsMax)
          return failFor(job.scheduleId === null ? `${brokenFile} Request the export again.` : brokenFile, lease)
        await abortUpload(job)
        await exports.dropFile(lease)
      } else if (error instanceof ClickHouseError && error.serverCode === clickHouseCode.timeoutExceeded) {
        // After an hour, a further attempt promises nothing.
        return failFor(tooLarge, lease)
      } else if (exceedsLimit(error)) {
        // Not retryable, because such attempts are counted.
        throw new QueryTooLargeError('work', { message: tooLarge, internal: internalMessage(error), cause: error })
      }
      const refusal = refusedPatternText(error, job.spec.filter, criteria)
      if (refusal !== undefined) return failFor(refusal, lease)
      throw error
    }
  }
}

/** The error for users when a statement failed because ClickHouse refuses a pattern; undefined for other failures. */
function refusedPatternText(error: unknown, filter: Filter = [], criteria?: Criteria): string | undefined {
  const filterPath = refusedPatternPath(error, filter)
  if (filterPath !== undefined) return `filter.${filterPath} ${refusedPatternReason}`
  const criteriaPath = criteria && refusedPatternPath(error, criteria)
  return criteriaPath === undefined ? undefined : `criteria.${criteriaPath} of the cohort ${refusedPatternReason}`
}

function uploadOf({ object, uploadId }: Pick<ExportRecord, 'object' | 'uploadId'>): Upload | undefined {
  return object === null || uploadId === null ? undefined : { name: object, uploadId }
}

/** The entity tag of the file. Other parts have other etags, so it changes with the content. */
function etagOf(exportId: string, parts: readonly UploadedPart[]): string {
  const text = [exportId, ...parts.map(({ etag }) => etag)].join('\n')
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  // No byte.
}
