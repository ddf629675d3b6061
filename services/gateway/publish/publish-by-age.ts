import { laneOf } from '@sluice/contracts/lanes'
import type { Publisher } from './publisher.ts'

/**
 * Publishes old events to the backfill log once it is read, and all others to the live one. A request with both
 * resolves when all of its events are durable. The age of an event depends on its time of receipt, so copies of an
 * event may go to different logs.
 */
export function publishByAge({
  live,
  backfill,
  isBackfillRead,
}: {
  live: Publisher
  backfill: Publisher
  isBackfillRead: () => boolean
}): Publisher {
  return {
    publish: (events, receivedAt) => {
      const isOld = ({ timestamp }: { timestamp: number }): boolean => laneOf(timestamp, receivedAt) === 'backfill'
      if (!isBackfillRead() || !events.some(isOld)) return live.publish(events, receivedAt)
      const old = events.filter(isOld)
      if (old.length === events.length) return backfill.publish(old, receivedAt)
      const others = events.filter((event) => !isOld(event))
      return Promise.all([live.publish(others, receivedAt), backfill.publish(old, receivedAt)]).then(() => undefined)
    },
  }
}
