import { completeUntilFrom } from '@sluice/contracts/lanes'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Logger } from '@sluice/runtime/logger'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

const defaultIntervalMs = 250

/**
 * Returns the time (Unix ms) before which every accepted event can be read; 0 before any writer has reported.
 * `readsFrom` (Unix ms): the analysis reads no earlier event; -Infinity for one that reads all. With a recent time, the
 * result does not wait for the backfill log (`completeUntilFrom`). Requests nothing from an engine.
 */
export type ReadCompleteUntil = (readsFrom: number) => number

/** The `complete_until` of answers, from the watermarks in Postgres. */
export interface CompleteUntilPoller extends Component {
  /** Returns `complete_until` as of the last successful poll. */
  read: ReadCompleteUntil
}

export interface CompleteUntilPollerDeps {
  store: Pick<WatermarkStore, 'readCompleteTimes'>
  logger: Pick<Logger, 'warn'>
  metrics: Metrics
  clock: Pick<SynchronizedClock, 'now'>
  intervalMs?: number
}

/**
 * Polls Postgres for the watermark of all partitions, so that no request has to read it
 * (docs/http-interface.md#complete-until). The value does not change while Postgres is unavailable, and while the log has
 * a partition that no writer has reported on yet. It decreases only when it lies in the future, because the clock of
 * Postgres has been set back. Its age is a metric. Only this service sees how far answers are behind when no writer
 * reports on a partition, or on a log that is gone.
 */
export function completeUntilPoller({
  store,
  logger,
  metrics,
  clock,
  intervalMs = defaultIntervalMs,
}: CompleteUntilPollerDeps): CompleteUntilPoller {
  let latest = { live: 0, all: 0 }
  new Gauge({
    name: 'sluice_query_complete_until_age_seconds',
    help: 'Time since the complete_until of answers that read no old events; since 1970 while it is not known.',
    registers: [metrics],
    // Computed at the scrape, so that the age grows while Postgres is unavailable.
    collect() {
      this.set((clock.now() - latest.live) / 1000)
    },
  })
  const polling = poller({
    name: 'complete until',
    intervalMs,
    poll: async () => {
      const { live, all } = await store.readCompleteTimes()
      const laterOf = (known: number, read: number) => (known > clock.now() ? read : Math.max(known, read))
      latest = { live: laterOf(latest.live, live), all: laterOf(latest.all, all) }
    },
    // The first request must find a value.
    pollsAtStart: true,
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'complete_until could not be read from Postgres, using the last value')
    },
  })
  return {
    ...polling,
    read: (readsFrom) => completeUntilFrom(latest, readsFrom),
  }
}
