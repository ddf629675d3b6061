import { createHash } from 'node:crypto'
import type { Block } from '@sluice/event-log/block'
import type { EventLog } from '@sluice/event-log/log'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { silentLogger } from '@sluice/runtime/silent-logger'
import type { Rig } from './rig.ts'

const publishTimeoutMs = 5_000

export interface Copying {
  count: () => number
  stop: () => Promise<void>
}

/**
 * Copies every block of each lane to the same partition of the other lane as soon as it is read, so that both lanes
 * insert the same rows at about the same time. In production this is rare: it happens when an event is sent twice and
 * becomes old in between.
 */
export async function copyAcrossLanes({ logUrl }: Pick<Rig, 'logUrl'>): Promise<Copying> {
  const live = await openEventLog(logUrl, { logger: silentLogger })
  const backfill = await openBackfillLog(logUrl, live, { logger: silentLogger })
  /** Payloads that were copied already: neither they nor their copies are copied again. */
  const copied = new Set<string>()
  const isNew = ({ payload }: Block): boolean => {
    const hash = createHash('sha1').update(payload).digest('base64')
    const isKnown = copied.has(hash)
    copied.add(hash)
    return !isKnown
  }

  const copyTo = (other: EventLog, from: EventLog) =>
    from.consumer({
      group: 'copies',
      batchBytesMax: 1024 * 1024,
      batchRowsMax: 10_000,
      lingerMs: 0,
      onClaim: async (claim) => {
        for await (const batch of claim.batches()) {
          // Kafka may be unavailable: nothing depends on a copy.
          await other.publish(batch.blocks.filter(isNew), { timeoutMs: publishTimeoutMs }).catch(() => undefined)
          await claim.commit(batch)
        }
      },
    })

  const consumers = [copyTo(backfill, live), copyTo(live, backfill)]
  const running = consumers.map((consumer) => consumer.run())
  return {
    count: () => copied.size,
    stop: async () => {
      await Promise.all(consumers.map((consumer) => consumer.stop()))
      await Promise.all(running)
      await Promise.all([live.close(), backfill.close()])
    },
  }
}
