import type { ErasureStore } from '@sluice/postgres/erasures'
import type { Clock } from '@sluice/runtime/clock'
import { Gauge, type Metrics, scrapeReader } from '@sluice/runtime/metrics'

/** Registers the age of the oldest erasure under way; docs/operations.md says at which age to raise an alarm. */
export function addErasureAge(
  metrics: Metrics,
  erasures: Pick<ErasureStore, 'oldestUnfinished'>,
  clock: Pick<Clock, 'now'>,
): void {
  const readOldest = scrapeReader(() => erasures.oldestUnfinished())
  new Gauge({
    name: 'sluice_worker_erasure_age_seconds',
    help: 'Time since the request of the oldest erasure that is not completed; 0 without one.',
    registers: [metrics],
    // While Postgres is unavailable, the last answer stays and the age grows; the worker logs the outage.
    async collect() {
      const oldestAt = await readOldest()
      this.set(oldestAt === undefined ? 0 : Math.max(0, clock.now() - oldestAt) / 1000)
    },
  })
}
