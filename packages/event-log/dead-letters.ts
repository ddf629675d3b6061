import { unitMs } from '@sluice/runtime/durations'
import { type Block, type DeadLetter, deadLetterTextMax } from './block.ts'
import type { BlockAtOffset } from './block-lines.ts'
import type { CommittedOffset, EventLog } from './log.ts'

/** Days for which dead letters are kept. */
export const deadLetterDays = 365
export const deadLetterRetentionMs = deadLetterDays * unitMs.d

/** The group whose committed offsets separate replayed dead letters from those that still wait. */
export const replayGroup = 'sluice-replay-dead-letters'

/**
 * The offsets up to which dead letters were replayed, stored outside of the log too
 * (packages/postgres/replay-positions.ts).
 */
export interface ReplayedOffsets {
  read(logId: string): Promise<ReadonlyMap<number, bigint>>
  advance(logId: string, partition: number, next: bigint): Promise<void>
}

/**
 * How far the dead letters of each partition were replayed. Kafka deletes the offsets of a group that has no members
 * for a week. With `positions`, dead letters below the positions stored there count as replayed too.
 */
export async function replayedUntil(
  deadLetters: Pick<EventLog, 'id' | 'committedOffsets'>,
  positions: Pick<ReplayedOffsets, 'read'> | undefined,
): Promise<CommittedOffset[]> {
  const replayed = (await positions?.read(await deadLetters.id())) ?? new Map<number, bigint>()
  return (await deadLetters.committedOffsets(replayGroup)).map(({ partition, offset, endOffset }) => {
    const kept = replayed.get(partition) ?? 0n
    // An offset beyond the end belongs to an earlier topic with this name.
    return { partition, offset: kept > offset && kept <= endOffset ? kept : offset, endOffset }
  })
}

/** The reason why rows can't be stored. */
export type DeadLetterCause = Pick<DeadLetter, 'reason' | 'code' | 'text'>

/** The block for the log of dead letters: its bytes are unchanged, and its headers contain the reason. */
export function toDeadLetter(
  { partition, offset, headers, payload }: BlockAtOffset,
  { text, ...cause }: DeadLetterCause,
): Block {
  const letter = { ...cause, text: text.slice(0, deadLetterTextMax), at: Date.now(), partition, offset: String(offset) }
  return { partition, headers: { ...headers, letter }, payload }
}
