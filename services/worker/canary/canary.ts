import { runLeases } from '@sluice/leases/run-leases'
import { canaryStore } from '@sluice/postgres/canary'
import type { Component } from '@sluice/runtime/supervisor'
import type { TaskContext, WorkerEngines } from '../worker-task.ts'
import { type CanaryOptions, canaryUnit } from './canary-unit.ts'
import { canaryMetrics } from './metrics.ts'

/** The canary, which one worker at a time runs: it sends an event every 10 s and checks that ClickHouse has it once. */
export function canary(
  options: CanaryOptions,
): (engines: Pick<WorkerEngines, 'postgres' | 'eventReader'>, context: TaskContext) => Component {
  return ({ postgres, eventReader }, { metrics, ...context }) => {
    const store = canaryStore(postgres)
    const { clock, logger, stopping } = context
    const work = canaryUnit({
      ...options,
      store,
      reader: eventReader,
      metrics: canaryMetrics(metrics),
      clock,
      logger,
      stopping,
    })
    return runLeases({ kind: 'canary', table: store.leases, work, concurrency: 1, ...context })
  }
}
