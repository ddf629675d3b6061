import { hash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import type { BlobStore, MultipartUpload, UploadedPart } from '@sluice/blobs/blob-store'
import { DiskFullError, hasFreeSpace } from '@sluice/blobs/disk-space'
import { partBytes } from '@sluice/blobs/part-bytes'
import type { Criteria } from '@sluice/contracts/conditions'
import { type EventKey, exportLimits } from '@sluice/contracts/exports'
import { dayMs } from '@sluice/contracts/time-units'
import type { ByteResult } from '@sluice/event-store/clickhouse/client'
import type { ExportReader } from '@sluice/event-store/exports/export-reader'
import type { ExportSlice } from '@sluice/event-store/exports/source'
import { LeaseLostError } from '@sluice/leases/lease-table'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import type { Clock } from '@sluice/runtime/clock'
import { sum } from '@sluice/runtime/sum'
import { exportBlobName, uploadOf } from './blob-names.ts'
import { compressor, type FileFrame, fileFrame, isResumable } from './file-format.ts'
import type { ExportMetrics } from './metrics.ts'
import type { OpenedExport } from './open-export.ts'
import { type PartBuffer, partBuffer, partWriter } from './part-writer.ts'
import { readAhead } from './read-ahead.ts'
import { recentMembers } from './recent-members.ts'

export interface FileWriterDeps {
  exports: Pick<ExportStore, 'parts' | 'beginFile' | 'recordParts' | 'complete'>
  reader: Pick<ExportReader, 'read'>
  blobs: Pick<
    BlobStore,
    'write' | 'createMultipartUpload' | 'uploadPart' | 'completeMultipartUpload' | 'abortMultipartUpload' | 'disk'
  >
  clock: Pick<Clock, 'now'>
  metrics: ExportMetrics
  /** Other jobs get their turn after this many ms; tests make it short. */
  unitMs?: number
}

const unitMsDefault = 10_000
const fileRetentionMs = exportLimits.fileRetentionDays * dayMs

/** How far a file has been written. */
interface Position {
  rows: number
  afterKey: EventKey | undefined
  progress: number
  /** Whether the file is at its end. */
  hasEnded: boolean
}

const fileStart = { rows: 0, afterKey: undefined, progress: 0 }

/** A file that is being written. */
interface OpenFile {
  job: ExportRecord
  frame: FileFrame
  upload: MultipartUpload
  /** All parts that were written, those of earlier units too. */
  parts: UploadedPart[]
  position: Position
  buffer: PartBuffer
}

/** A slice whose rows ClickHouse has, in memory or on its disk. */
interface ReadSlice extends Omit<ExportSlice, 'rows'> {
  read: ByteResult
}

/**
 * Returns a function that writes pieces of a file until its unit of work is over, or all of a file that can't be
 * resumed, and completes the file at its end. A piece is as many slices as make a part; it counts once it is recorded
 * under the lease. The function throws DiskFullError, LeaseLostError, and what the stores throw.
 */
export function fileWriter(
  deps: FileWriterDeps,
): (job: ExportRecord, opened: OpenedExport, lease: Lease) => Promise<UnitResult> {
  const { exports, reader, blobs, clock, metrics, unitMs = unitMsDefault } = deps
  const membersOf = recentMembers()

  /** Writes parts as long as enough of the disk stays free. */
  const guarded: Pick<BlobStore, 'uploadPart'> = {
    uploadPart: async (upload, n, content) => {
      if (!(await hasFreeSpace(blobs, content.length))) throw new DiskFullError()
      return blobs.uploadPart(upload, n, content)
    },
  }

  async function begin(lease: Lease, cohortCriteria: Criteria | undefined): Promise<MultipartUpload> {
    const upload = await blobs.createMultipartUpload(exportBlobName(lease))
    try {
      await exports.beginFile(lease, { object: upload.name, uploadId: upload.uploadId, cohortCriteria })
    } catch (error) {
      // No record names the upload. If it can't be aborted, export-files.ts aborts it later.
      if (error instanceof LeaseLostError) await blobs.abortMultipartUpload(upload).catch(() => undefined)
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
    const upload = begun ?? (await begin(lease, cohortCriteria))
    // A new file begins with the first row, however far an earlier one went.
    const written = begun ? { rows: job.rows, afterKey: job.afterKey ?? undefined, progress: job.progress } : fileStart
    const file: OpenFile = {
      job,
      frame: fileFrame(spec, source.columns),
      upload,
      parts: await exports.parts(exportId),
      position: { ...written, hasEnded: false },
      buffer: partBuffer(),
    }
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
    try {
      for (;;) {
        const parts = await writePiece(file, slices, lease.signal)
        const { rows, afterKey, progress, hasEnded } = file.position
        if (hasEnded) return await finish(file, lease)
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

  /** Writes the next piece, which advances the file's position. Returns the parts of the piece. */
  async function writePiece(
    { job: { spec }, frame, upload, parts, position, buffer }: OpenFile,
    slices: AsyncGenerator<ReadSlice>,
    signal: AbortSignal,
  ): Promise<UploadedPart[]> {
    const firstPart = parts.length + 1
    const writer = partWriter(guarded, upload, { firstPart, buffer, signal })
    const isFull = (): boolean => isResumable(spec) && writer.bytes >= partBytes(firstPart)
    const content = contentOf(frame, slices, { position, isFull })
    const rowsBefore = position.rows
    const write = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
      for await (const chunk of chunks) await writer.write(chunk)
    }
    const compress = compressor(spec)
    if (compress) await pipeline(content, compress, write, { signal })
    else await write(content)
    const written = await writer.end()
    parts.push(...written)
    metrics.rows.inc(position.rows - rowsBefore)
    metrics.bytes.inc(writer.bytes)
    return written
  }

  /** Completes a file that is at its end, and its export. */
  async function finish({ job, upload, parts, position: { rows } }: OpenFile, lease: Lease): Promise<UnitResult> {
    lease.signal.throwIfAborted()
    const bytes = sum(parts.map((part) => part.bytes))
    // Completing an upload in a folder copies its parts, which needs as much free space again.
    if (!(await hasFreeSpace(blobs, bytes))) throw new DiskFullError()
    if (parts.length > 0) await blobs.completeMultipartUpload(upload, parts)
    else {
      // An upload needs a part.
      await blobs.write(upload.name, nothing(), { signal: lease.signal })
      await blobs.abortMultipartUpload(upload)
    }
    const now = clock.now()
    const etag = etagOf(job.exportId, parts)
    await exports.complete(lease, { rows, bytes, etag, expiresAt: now + fileRetentionMs }, now)
    return { next: 'done', log: { export_rows: rows, file_bytes: bytes } }
  }

  return writePieces
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

/** The entity tag of the file. Other parts have other etags, so it changes with the content. */
function etagOf(exportId: string, parts: readonly UploadedPart[]): string {
  const text = [exportId, ...parts.map(({ etag }) => etag)].join('\n')
  return hash('sha256', text).slice(0, 32)
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  // No byte.
}
