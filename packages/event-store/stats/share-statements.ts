import { isSessionMetric } from '@sluice/contracts/stats'
import { isTimeUnit } from '../calendar.ts'
import type { QueryResult } from '../clickhouse/client.ts'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import type { StatsSpec } from './spec.ts'

/**
 * For specs that are evaluated at the same time. The returned function adds to a spec the metrics that other specs need
 * of the same sessions (`sharedMetrics`). The statements of these specs are then equal, and `deduplicatingRunner` runs
 * them once.
 */
export function shareStatements(specs: readonly StatsSpec[]): <Spec extends StatsSpec>(spec: Spec) => Spec {
  const sharing = Map.groupBy(specs.filter(isShareable), sessionsKey)
  return (spec) => {
    const together = isShareable(spec) ? (sharing.get(sessionsKey(spec)) ?? []) : []
    const sharedMetrics = [...new Set(together.map(({ metric }) => metric))].sort()
    return sharedMetrics.length < 2 ? spec : { ...spec, sharedMetrics }
  }
}

/** Groups by value are ranked by their metric, so each metric needs its own statement. */
function isShareable({ metric, groupBy }: StatsSpec): boolean {
  return isSessionMetric(metric) && (groupBy === undefined || isTimeUnit(groupBy))
}

/** Two specs with equal keys differ only in their metric. */
function sessionsKey({ metric: _, ...spec }: StatsSpec): string {
  return JSON.stringify(Object.entries(spec).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A runner that runs equal statements once and gives the result to all callers. */
export function deduplicatingRunner(runner: QueryRunner): QueryRunner {
  const results = new Map<string, Promise<QueryResult<never>>>()
  return {
    ...runner,
    query: (statement, options) => {
      const key = JSON.stringify([statement, options])
      const result = results.get(key) ?? runner.query<never>(statement, options)
      results.set(key, result)
      return result
    },
  }
}
