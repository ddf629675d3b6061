import type { CommittedOffset } from './log.ts'

/**
 * Whether a group has committed everything below `endOffsets` (by partition). In a log that was created again, the
 * offsets may be lower: there a group has reached them when it has committed everything in the partition.
 */
export function hasReached(committed: readonly CommittedOffset[], endOffsets: ReadonlyMap<number, bigint>): boolean {
  return committed.every(
    ({ partition, offset, endOffset }) => offset >= (endOffsets.get(partition) ?? 0n) || offset >= endOffset,
  )
}
