// A worker of imports as a process of its own, for tests that stop and continue it.
import { leaseMetrics } from '@sluice/leases/metrics'
import { runLeases } from '@sluice/leases/run-leases'
import { importStore } from '@sluice/postgres/imports'
import { openPostgres } from '@sluice/postgres/open'
import type { Clock } from '@sluice/runtime/clock'
import { createLogger } from '@sluice/runtime/logger'
import { createMetrics } from '@sluice/runtime/metrics'
import { sleep } from '@sluice/runtime/sleep'
import { nextSegment, segmentDone } from '../support/import-jobs.ts'

/** Time passes ten times as fast, so that a lease lasts for three seconds. */
const speed = 10
const clock: Clock = {
  now: () => Date.now() * speed,
  sleep: (ms, signal) => sleep(ms / speed, signal),
}
const postgres = openPostgres(process.env.POSTGRES_URL ?? '')
const store = importStore(postgres)
const component = runLeases({
  kind: 'import',
  table: store.leases,
  work: async (_job, lease) => {
    const n = await nextSegment(store, lease.id)
    if (n === undefined) {
      await store.complete(lease, clock.now())
      return { next: 'done' }
    }
    process.stdout.write(`working on ${n}\n`)
    await clock.sleep(5_000)
    await store.recordSegment(lease, n, segmentDone)
    return { next: 'now' }
  },
  clock,
  concurrency: 1,
  logger: createLogger({ service: 'worker', level: 'error' }),
  leaseMetrics: leaseMetrics(createMetrics()),
})
const stopping = new AbortController()
process.on('SIGTERM', () => {
  stopping.abort()
})
await component.run?.(stopping.signal)
await postgres.close()
