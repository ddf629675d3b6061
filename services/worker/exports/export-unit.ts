import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import type { BlobStore, Upload, UploadedPart } from '@sluice/blobs/blob-store'
import { exportLimits } from '@sluice/contracts/exports'
import type { ExportReader } from '@sluice/event-store/exports/export-reader'
import type { ExportSource } from '@sluice/event-store/exports/source'
import { LeaseLost } from '@sluice/leases/lease-table'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import type { RowKey } from '@sluice/postgres/tables'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Clock } from '@sluice/runtime/clock'
import { AppError } from '@sluice/runtime/errors'
import { exportBlobName } from './blob-names.ts'
import { compressor, fileFrame, isResumable } from './file-format.ts'
import type { ExportMetrics } from './metrics.ts'
import { openSource, type SourceDeps } from './open-source.ts'
import { partBytes, partWriter } from './part-writer.ts'

export interface ExportUnitDeps extends SourceDeps {
  exports: Pick<ExportStore, 'find' | 'parts' | 'beginFile' | 'recordParts' | 'complete' | 'fail'>
  reader: Pick<ExportReader, 'runner' | 'read'>
  blobs: Pick<BlobStore, 'write' | 'remove' | 'beginParts' | 'writePart' | 'completeParts' | 'abortParts'>
  watermarks: Pick<WatermarkStore, 'completeUntil'>
  clock: Pick<Clock, 'now'>
  metrics: ExportMetrics
}

/** What was accepted before an export is waited for so long; then it reads what is stored. */
const completeWaitMsMax = 30_000
/** The pause before that is looked at again. */
const waitMs = 500
const fileKeptMs = exportLimits.fileKeptDays * 86_400_000

/** How far a file has been written. */
interface Position {
  rows: number
  afterKey: RowKey | undefined
  progress: number
  /** Whether the file is at its end. */
  hasEnded: boolean
}

/**
 * One unit of an export's work: the next slices, until they make a part of the file, or the file's end. What a unit has
 * written counts once it is recorded under the lease; a unit whose worker dies is repeated from the last recorded key, and
 * its parts are written again. A file that can't be resumed is written by one unit.
 */
export function exportUnit(deps: ExportUnitDeps): (job: ExportRecord, lease: Lease) => Promise<UnitResult> {
  const { exports, reader, blobs, clock, metrics } = deps

  /** Everything accepted before the export can be read, or has been waited for long enough. */
  async function isReady({ createdAt, receivedUntil }: ExportRecord): Promise<boolean> {
    if (clock.now() >= createdAt.getTime() + completeWaitMsMax) return true
    const { all } = await deps.watermarks.completeUntil()
    // The last time of receipt that is read is the millisecond before.
    return all >= (receivedUntil ?? createdAt).getTime() - 1
  }

  async function beginFile(exportId: string, lease: Lease): Promise<Upload> {
    const upload = await blobs.beginParts(exportBlobName(exportId))
    await exports.beginFile(lease, { object: upload.name, uploadId: upload.uploadId })
    return upload
  }

  async function writePiece(job: ExportRecord, source: ExportSource, lease: Lease): Promise<UnitResult> {
    const { exportId, spec } = job
    const { signal } = lease
    const upload = uploadOf(job) ?? (await beginFile(exportId, lease))
    const recorded = await exports.parts(exportId)
    const writer = partWriter(blobs, upload, { firstPart: recorded.length + 1, signal })
    const position: Position = {
      rows: job.rows,
      afterKey: job.afterKey ?? undefined,
      progress: job.progress,
      hasEnded: false,
    }
    const isFull = (): boolean => isResumable(spec) && writer.bytes >= partBytes
    const content = contentOf(job, source, { position, isFull, signal })
    const write = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
      for await (const chunk of chunks) await writer.write(chunk)
    }
    const compress = compressor(spec)
    if (compress) await pipeline(content, compress, write, { signal })
    else await write(content)
    const parts = await writer.end()
    metrics.rows.inc(position.rows - job.rows)
    metrics.bytes.inc(writer.bytes)

    const { rows, afterKey, progress, hasEnded } = position
    if (hasEnded) return finish({ job, upload, parts: [...recorded, ...parts], rows }, lease)
    if (afterKey === undefined) throw new Error('the slice has no end')
    await exports.recordParts(lease, { parts, afterKey, rows, progress })
    return { next: 'now', log: { export_rows: rows - job.rows, bytes: writer.bytes } }
  }

  /** Yields the bytes of the next slices before compression, and notes how far they go. */
  async function* contentOf(
    { spec, afterKey }: ExportRecord,
    source: ExportSource,
    { position, isFull, signal }: { position: Position; isFull: () => boolean; signal: AbortSignal },
  ): AsyncGenerator<Uint8Array> {
    const { head, separator, tail } = fileFrame(spec, source.columns)
    if (afterKey === null && head !== '') yield Buffer.from(head)
    for await (const slice of source.slices(position.afterKey)) {
      const format = { format: spec.format, isCsvSafe: spec.csv_safe }
      const { bytes, rows } = await reader.read(slice.rows, format, signal)
      if (rows > 0 && position.rows > 0 && separator !== '') yield Buffer.from(separator)
      yield* bytes
      position.rows += rows
      position.afterKey = slice.until
      position.progress = slice.progress
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
    if (parts.length > 0) await blobs.completeParts(upload, parts)
    else {
      // An upload needs a part.
      await blobs.write(upload.name, nothing(), { signal: lease.signal })
      await blobs.abortParts(upload)
    }
    const now = clock.now()
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
    const etag = etagOf(job.exportId, parts)
    await exports.complete(lease, { rows, bytes, etag, expiresAt: now + fileKeptMs }, now)
    return { next: 'done', log: { export_rows: rows, file_bytes: bytes } }
  }

  /** Removes the file of an export that was deleted during this unit: nobody takes it any more. */
  async function removeDeleted({ exportId, uploadId }: ExportRecord): Promise<void> {
    try {
      if ((await exports.find(exportId, null)) !== undefined) return
      const name = exportBlobName(exportId)
      if (uploadId !== null) await blobs.abortParts({ name, uploadId })
      await blobs.remove([name])
    } catch {
      // It is removed by export-files.ts later.
    }
  }

  return async (job, lease) => {
    try {
      if (!(await isReady(job))) return { next: clock.now() + waitMs, log: { waits: 'for the writers' } }
      const source = await openSource(deps, job, reader.runner(lease.signal))
      if ('error' in source) {
        await exports.fail(lease, source.error, clock.now())
        return { next: 'done', log: { failed: source.error } }
      }
      return await writePiece(job, source, lease)
    } catch (error) {
      if (error instanceof LeaseLost || lease.signal.aborted) await removeDeleted(job)
      // The upload has ended, or another worker has replaced a part since it was recorded: the file begins anew.
      else if (error instanceof AppError && error.code === 'conflict') await beginFile(job.exportId, lease)
      throw error
    }
  }
}

function uploadOf({ object, uploadId }: ExportRecord): Upload | undefined {
  return object === null || uploadId === null ? undefined : { name: object, uploadId }
}

/** Names the bytes of the file: other parts have other etags. */
function etagOf(exportId: string, parts: readonly UploadedPart[]): string {
  const text = [exportId, ...parts.map(({ etag }) => etag)].join('\n')
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  // No byte.
}
