import type { BlobStore } from './blob-store.ts'

/** Files leave a tenth of the disk free, or 1 GiB where that is less: the log of events may stand on the same disk. */
const keptShare = 0.1
const keptBytesMax = 1024 ** 3

/** What a unit of work waits for while `hasFreeSpace` is false, for the log (docs/operations.md). */
export const waitsForFreeSpace = 'for free space on the disk of the store of files'

/** Thrown before a write that would leave less of the disk free than the store must leave. */
export class DiskFullError extends Error {
  override readonly name = 'DiskFullError'
}

/** Whether the disk of the store has enough free space for `bytes` more. A store without a disk of its own always has. */
export async function hasFreeSpace(blobs: Pick<BlobStore, 'disk'>, bytes: number): Promise<boolean> {
  const disk = await blobs.disk()
  return disk === undefined || disk.freeBytes - bytes >= Math.min(disk.sizeBytes * keptShare, keptBytesMax)
}
