import type { BlobStore } from '@sluice/blobs/blob-store'
import { exportLimits } from '@sluice/contracts/exports'
import type { ExportStore } from '@sluice/postgres/exports'

export interface FinishedFile {
  content: AsyncIterable<Uint8Array> | Uint8Array
  rows?: number
  /** Unix ms, as `at`. */
  expiresAt?: number
  at?: number
}

/**
 * Completes an export as the worker does, with the given bytes as its file, after all exports that wait before it.
 * Throws when it is not due.
 */
export async function finishExport(
  { exports, blobs }: { exports: ExportStore; blobs: Pick<BlobStore, 'write'> },
  exportId: string,
  { content, rows = 1, at = Date.now(), expiresAt = at + exportLimits.fileRetentionDays * 86_400_000 }: FinishedFile,
): Promise<void> {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    if (content instanceof Uint8Array) yield await Promise.resolve(content)
    else yield* content
  }
  for (;;) {
    const [lease] = await exports.leases.take(at, 1)
    if (!lease) throw new Error(`${exportId} is not due`)
    const object = `exports/${lease.id}`
    const { bytes } = await blobs.write(object, chunks())
    await exports.beginFile(lease, { object, uploadId: 'upload' })
    await exports.complete(lease, { rows, bytes, etag: `etag-of-${lease.id}`, expiresAt }, at)
    if (lease.id === exportId) return
  }
}
