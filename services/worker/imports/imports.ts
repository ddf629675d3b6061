import { writerGroup } from '@sluice/event-log/writer-group'
import { runLeases } from '@sluice/leases/run-leases'
import { importStore } from '@sluice/postgres/imports'
import { shardStore } from '@sluice/postgres/shards'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { WorkerTask } from '../worker-task.ts'
import { importUnit } from './import-unit.ts'
import { importMetrics } from './metrics.ts'
import { publishPace } from './publish-pace.ts'
import { openSegmentEncoder } from './segment-encoder.ts'

/**
 * The imports as a kind of job. One at a time, because there is one encoder thread, and live events need the rest of
 * the machine.
 */
export const imports: WorkerTask = (engines, { metrics, ...context }) => {
  const { postgres, inserter } = engines
  const { clock } = context
  const store = importStore(postgres)
  const ownMetrics = importMetrics(metrics)
  const encoder = openSegmentEncoder()
  const pace = publishPace({
    ...engines,
    group: async () => writerGroup(await inserter.storeId()),
    clock,
    metrics: ownMetrics,
  })
  const sites = siteStore(postgres)
  const watermarks = watermarkStore(postgres)
  const component = runLeases({
    kind: 'imports',
    table: store.leases,
    work: importUnit({
      ...engines,
      imports: store,
      sites,
      watermarks,
      shards: shardStore(postgres),
      encoder,
      pace,
      clock,
      metrics: ownMetrics,
    }),
    concurrency: 1,
    ...context,
  })
  return { ...component, stop: () => encoder.close() }
}
