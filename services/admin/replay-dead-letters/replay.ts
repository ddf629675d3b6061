import type { Block } from '@sluice/event-log/block'
import { blocksWithOffsets } from '@sluice/event-log/block-lines'
import { deadLetterRetentionMs, type ReplayedOffsets } from '@sluice/event-log/dead-letters'
import type { EventLog } from '@sluice/event-log/log'
import { sum } from '@sluice/runtime/sum'
import { distinctLetters } from './distinct-letters.ts'
import { readDeadLetters } from './read-dead-letters.ts'

const publishTimeoutMs = 30_000

/** The counts of a replay. */
export interface Replayed {
  letters: number
  rows: number
  /** Letters that were left out because they are copies of others. */
  copies: number
  /** Letters that were left out because their rows were received more than 365 days ago. */
  expired: number
  /** Records in the log of dead letters that are not dead letters. */
  foreign: number
}

export interface ReplayLogs {
  deadLetters: EventLog
  /** Where replays are noted; undefined for a log that keeps the positions of its groups for ever. */
  positions?: ReplayedOffsets | undefined
}

/**
 * Publishes every dead letter that has not been replayed to the partition that it came from. A letter counts as
 * replayed when the log has acknowledged it; after a crash before that it is replayed again, and the writer stores
 * nothing twice. One of several letters with the same rows is published, so a row that still can't be stored becomes
 * one new letter. Old rows are left out: those of an erased person could be stored again once the tombstone is gone,
 * 400 days after the request. Throws AppError `unavailable` while a log is unavailable.
 */
export async function replayDeadLetters(logs: ReplayLogs & { log: EventLog }): Promise<Replayed> {
  const { log, deadLetters, positions } = logs
  const partitions = await log.partitions()
  const done: Replayed = { letters: 0, rows: 0, copies: 0, expired: 0, foreign: 0 }
  const oldest = Date.now() - deadLetterRetentionMs
  const distinct = distinctLetters()
  await readDeadLetters(deadLetters, {
    commit: true,
    positions,
    handle: async ({ blocks }) => {
      const letters = blocks.filter(({ headers }) => headers.letter !== undefined)
      const recent = letters.filter((letter) => !wasReceivedBefore(oldest, letter))
      const first = recent.filter((letter) => distinct.isFirst(letter))
      const again = first.flatMap((letter) => toOriginalBlock(letter, partitions))
      try {
        await log.publish(again, { timeoutMs: publishTimeoutMs })
      } catch (error) {
        // Another claim may deliver the same letters again. They are no copies of published ones.
        for (const letter of first) distinct.forget(letter)
        throw error
      }
      done.letters += again.length
      done.rows += sum(again.map(({ headers }) => headers.rows))
      done.copies += recent.length - again.length
      done.expired += letters.length - recent.length
      done.foreign += blocks.length - letters.length
    },
  })
  return done
}

/**
 * Calls `show` with every dead letter that has not been replayed and its place in the log of dead letters. Copies are
 * shown once. Changes nothing.
 */
export async function listDeadLetters(
  { deadLetters, positions }: ReplayLogs,
  show: (block: Block, place: { partition: number; offset: bigint }) => void,
): Promise<Pick<Replayed, 'letters' | 'rows'>> {
  const seen = { letters: 0, rows: 0 }
  const distinct = distinctLetters()
  await readDeadLetters(deadLetters, {
    commit: false,
    positions,
    handle: (batch) => {
      for (const block of blocksWithOffsets(batch).filter((letter) => distinct.isFirst(letter))) {
        show(block, block)
        seen.letters++
        seen.rows += block.headers.rows
      }
      return Promise.resolve()
    },
  })
  return seen
}

/** Whether a row of the letter was received before `time` (Unix ms). What is no row of Sluice has no such time. */
function wasReceivedBefore(time: number, { payload }: Block): boolean {
  return payload
    .toString()
    .split('\n')
    .some((line) => {
      try {
        const row = JSON.parse(line) as { received_at?: number } | null
        return (row?.received_at ?? time) < time
      } catch {
        return false
      }
    })
}

/** The block as the writer read it, in a list; empty for a record that is no dead letter. */
function toOriginalBlock({ headers, payload }: Block, partitions: number): Block[] {
  const { letter, ...before } = headers
  return letter ? [{ partition: letter.partition % partitions, headers: before, payload }] : []
}
