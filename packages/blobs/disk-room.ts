import type { BlobStore } from './blob-store.ts'

/** Files leave a tenth of the disk free, or 1 GiB where that is less: the log of events may stand on the same disk. */
const keptShare = 0.1
const keptBytesMax = 1024 ** 3

/** What a unit of work waits for while `hasRoom` is false, for the log (docs/operations.md). */
export const waitsForRoom = 'for room on the disk of the store of files'

/** Thrown instead of writing what would leave too little of the disk free. */
export class DiskNearlyFull extends Error {
  override readonly name = 'DiskNearlyFull'
}

/** Whether the disk of the store has room for `bytes` more. A store without a disk of its own always has. */
export async function hasRoom(blobs: Pick<BlobStore, 'disk'>, bytes: number): Promise<boolean> {
  const disk = await blobs.disk()
  return disk === undefined || disk.freeBytes - bytes >= Math.min(disk.sizeBytes * keptShare, keptBytesMax)
}
