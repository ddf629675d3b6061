import type { Block } from '@sluice/event-log/block'
import { blocksWithOffsets } from '@sluice/event-log/dead-letters'
import type { EventLog } from '@sluice/event-log/log'
import { readDeadLetters } from './read-dead-letters.ts'

const publishTimeoutMs = 30_000

export interface Replayed {
  letters: number
  rows: number
  /** Records in the log of dead letters that are no dead letters. */
  foreign: number
}

/**
 * Publishes every dead letter that has not been replayed to the partition that it came from. A letter counts as replayed
 * when the log has acknowledged it; after a crash before that it is replayed again, and the writer stores nothing twice.
 * A row that still can't be stored becomes a new letter. Throws AppError `unavailable` while a log is unavailable.
 */
export async function replayDeadLetters(logs: { log: EventLog; deadLetters: EventLog }): Promise<Replayed> {
  const { log, deadLetters } = logs
  const partitions = await log.partitions()
  const done: Replayed = { letters: 0, rows: 0, foreign: 0 }
  await readDeadLetters(deadLetters, {
    commit: true,
    handle: async ({ blocks }) => {
      const again = blocks.flatMap((block) => toOriginalBlock(block, partitions))
      await log.publish(again, { timeoutMs: publishTimeoutMs })
      done.letters += again.length
      done.rows += again.reduce((sum, { headers }) => sum + headers.rows, 0)
      done.foreign += blocks.length - again.length
    },
  })
  return done
}

/** Calls `show` with every dead letter that has not been replayed and its place in the log of dead letters; changes nothing. */
export async function listDeadLetters(
  deadLetters: EventLog,
  show: (block: Block, place: { partition: number; offset: bigint }) => void,
): Promise<Omit<Replayed, 'foreign'>> {
  const seen = { letters: 0, rows: 0 }
  await readDeadLetters(deadLetters, {
    commit: false,
    handle: (batch) => {
      for (const block of blocksWithOffsets(batch)) {
        show(block, block)
        seen.letters++
        seen.rows += block.headers.rows
      }
      return Promise.resolve()
    },
  })
  return seen
}

/** The block as the writer read it, in a list; empty for a record that is no dead letter. */
function toOriginalBlock({ headers, payload }: Block, partitions: number): Block[] {
  const { letter, ...before } = headers
  return letter ? [{ partition: letter.partition % partitions, headers: before, payload }] : []
}
