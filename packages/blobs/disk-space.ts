import type { BlobStore } from './blob-store.ts'

/** Files leave a tenth of the disk free, at most 1 GiB: the event log may be on the same disk. */
const keptShare = 0.1
const keptBytesMax = 1024 ** 3

/** What a unit of work waits for while `hasFreeSpace` is false, as a text for the log (docs/operations.md). */
export const waitsForFreeSpace = 'for free space on the disk of the store of files'

/** Thrown before a write that would use the space that the store must leave free. */
export class DiskFullError extends Error {
  override readonly name = 'DiskFullError'
}

/** Whether the store's disk has enough free space for further `bytes`. Always true for a store without a disk. */
export async function hasFreeSpace(blobs: Pick<BlobStore, 'disk'>, bytes: number): Promise<boolean> {
  const disk = await blobs.disk()
  return disk === undefined || disk.freeBytes - bytes >= Math.min(disk.sizeBytes * keptShare, keptBytesMax)
}
