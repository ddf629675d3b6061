import type { ShardStore } from '@sluice/postgres/shards'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'

const defaultIntervalMs = 1_000

export interface ShardWatch extends Component {
  /** Whether there are several shards, or may be: the number is not known yet. */
  maySpread: () => boolean
}

/** Polls Postgres until the number of shards is known, which never changes. */
export function watchShards(store: Pick<ShardStore, 'read'>, intervalMs = defaultIntervalMs): ShardWatch {
  let shards: number | undefined
  const polling = poller({
    name: 'number of shards',
    intervalMs,
    pollsAtStart: true,
    poll: async () => {
      shards ??= await store.read()
    },
  })
  return { ...polling, maySpread: () => shards !== 1 }
}
