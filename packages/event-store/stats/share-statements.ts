import { isTimeUnit } from '../calendar.ts'
import type { QueryResult } from '../client.ts'
import type { QueryRunner } from '../query-runner.ts'
import { isSessionMetric } from '../session-metrics.ts'
import type { StatsSpec } from './spec.ts'

/**
 * For specs that are evaluated at the same time: the returned function adds to each spec the session metrics that other
 * specs ask of the same sessions (`sharedMetrics`), so that their statements are equal. `deduplicatingRunner` then runs
 * each statement once.
 */
export function shareStatements(specs: readonly StatsSpec[]): <Spec extends StatsSpec>(spec: Spec) => Spec {
  const sharing = Map.groupBy(specs.filter(isShareable), sessionsKey)
  return (spec) => {
    const together = isShareable(spec) ? (sharing.get(sessionsKey(spec)) ?? []) : []
    const sharedMetrics = [...new Set(together.map(({ metric }) => metric))].sort()
    return sharedMetrics.length < 2 ? spec : { ...spec, sharedMetrics }
  }
}

/** Groups by value are ranked by their metric, so each metric needs a statement of its own. */
function isShareable({ metric, groupBy }: StatsSpec): boolean {
  return isSessionMetric(metric) && (groupBy === undefined || isTimeUnit(groupBy))
}

/** Two specs with equal keys differ in their metric alone. */
function sessionsKey({ metric: _, ...spec }: StatsSpec): string {
  return JSON.stringify(Object.entries(spec).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A runner that runs equal statements once and gives all their callers the one result. */
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
