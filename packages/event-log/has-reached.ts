import type { CommittedOffset } from './log.ts'

/**
 * Whether a group has read everything that is below `endOffsets` (by partition). A group that has read all of a
 * partition has read that too, also in a log that was created anew and whose offsets are lower.
 */
export function hasReached(committed: readonly CommittedOffset[], endOffsets: ReadonlyMap<number, bigint>): boolean {
  return committed.every(
    ({ partition, offset, endOffset }) => offset >= (endOffsets.get(partition) ?? 0n) || offset >= endOffset,
  )
}
