import type { EncodedEvent } from '@sluice/events/encode-event'
import { keyHashOfGeneratedId } from '@sluice/events/key-hash'
import type { Publisher } from './publisher.ts'

/**
 * Publishes events whose ids the gateway made to the partition of their hash as well, while `isNeeded`. With several
 * shards an event that is exported and imported again, with its id, must meet its original, which is on one of them
 * only. With one shard any partition will do, and one is better: a request makes fewer blocks.
 */
export function hashGeneratedIds(publisher: Publisher, isNeeded: () => boolean): Publisher {
  return {
    publish: (events, receivedAt) => publisher.publish(isNeeded() ? events.map(withHash) : events, receivedAt),
  }
}

function withHash(event: EncodedEvent): EncodedEvent {
  return event.keyHash === undefined ? { ...event, keyHash: keyHashOfGeneratedId(event) } : event
}
