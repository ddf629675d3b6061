import type { EncodedEvent } from '@sluice/events/encode-event'
import { keyHashOfGeneratedId } from '@sluice/events/key-hash'
import type { Publisher } from './publisher.ts'

/**
 * While `isNeeded`, events whose ids the gateway made are published to the partition of their hash as well. With
 * several shards, an event that is exported and imported again with its id must come to the shard of its original. With
 * one shard any partition will do, and a single one is better, because a request then makes fewer blocks.
 */
export function hashGeneratedIds(publisher: Publisher, isNeeded: () => boolean): Publisher {
  return {
    publish: (events, receivedAt) => publisher.publish(isNeeded() ? events.map(withHash) : events, receivedAt),
  }
}

function withHash(event: EncodedEvent): EncodedEvent {
  return event.keyHash === undefined ? { ...event, keyHash: keyHashOfGeneratedId(event) } : event
}
