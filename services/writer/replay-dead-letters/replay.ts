import type { Block } from '@sluice/contracts/block'
import type { EventLog } from '@sluice/event-log/log'
import { loggedBlocks } from '../dead-letters.ts'
import { readDeadLetters } from './read-dead-letters.ts'

const publishTimeoutMs = 30_000

export interface Replayed {
  letters: number
  rows: number
  /** Records in the log of dead letters that are none. */
  foreign: number
}

/**
 * Publishes every dead letter that waits to the partition that it came from. A letter counts as replayed when the log has
 * acknowledged it; a crash before that replays it again, and the writer stores nothing twice. What still can't be stored
 * comes back as a new letter. Throws SluiceError 503 when a log is away.
 */
export async function replayDeadLetters(logs: { log: EventLog; deadLetters: EventLog }): Promise<Replayed> {
  const { log, deadLetters } = logs
  const partitions = await log.partitions()
  const done: Replayed = { letters: 0, rows: 0, foreign: 0 }
  await readDeadLetters(deadLetters, {
    commit: true,
    handle: async ({ blocks }) => {
      const again = blocks.flatMap((block) => asBefore(block, partitions))
      await log.publish(again, { timeoutMs: publishTimeoutMs })
      done.letters += again.length
      done.rows += again.reduce((sum, { headers }) => sum + headers.rows, 0)
      done.foreign += blocks.length - again.length
    },
  })
  return done
}

/** Shows every dead letter that waits, with its place in the log of dead letters; changes nothing. */
export async function listDeadLetters(
  deadLetters: EventLog,
  show: (block: Block, place: { partition: number; offset: bigint }) => void,
): Promise<Omit<Replayed, 'foreign'>> {
  const seen = { letters: 0, rows: 0 }
  await readDeadLetters(deadLetters, {
    commit: false,
    handle: (batch) => {
      for (const block of loggedBlocks(batch)) {
        show(block, block)
        seen.letters++
        seen.rows += block.headers.rows
      }
      return Promise.resolve()
    },
  })
  return seen
}

/** The block as the writer read it; nothing for a record that is no dead letter. */
function asBefore({ headers, payload }: Block, partitions: number): Block[] {
  const { letter, ...before } = headers
  return letter ? [{ partition: letter.partition % partitions, headers: before, payload }] : []
}
