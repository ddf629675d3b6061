import type { BlobStore } from './blob-store.ts'

/** New files leave a tenth of the disk free, at most 1 GiB: the event log may be on the same disk. */
const keptShare = 0.1
const keptBytesMax = 1024 ** 3
/**
 * The share of this space that imports leave free. Otherwise files that wait to be imported could fill the disk, and it
 * would stay full, because files are removed when they have been imported.
 */
const keptByImports = 0.5

/** What a unit of work waits for without enough free space, as a text for the log (docs/operations.md). */
export const waitsForFreeSpace = 'for free space on the disk of the store of files'

/** Thrown before a write that would use the space that the store must leave free. */
export class DiskFullError extends Error {
  override readonly name = 'DiskFullError'
}

/** Whether the store's disk has enough free space for further `bytes`. Always true for a store without a disk. */
export function hasFreeSpace(blobs: Pick<BlobStore, 'disk'>, bytes: number): Promise<boolean> {
  return leavesFree(blobs, bytes, 1)
}

/** Whether the disk has enough free space to import a file that it holds. Always true for a store without a disk. */
export function hasFreeSpaceToImport(blobs: Pick<BlobStore, 'disk'>): Promise<boolean> {
  return leavesFree(blobs, 0, keptByImports)
}

async function leavesFree(blobs: Pick<BlobStore, 'disk'>, bytes: number, share: number): Promise<boolean> {
  const disk = await blobs.disk()
  return disk === undefined || disk.freeBytes - bytes >= Math.min(disk.sizeBytes * keptShare, keptBytesMax) * share
}
