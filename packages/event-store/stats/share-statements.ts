import { isTimeUnit } from '../calendar.ts'
import type { QueryResult } from '../client.ts'
import type { QueryRunner } from '../query-runner.ts'
import { isSessionMetric } from './metric-sql.ts'
import type { StatsSpec } from './spec.ts'

/**
 * For specs that are evaluated at the same time, returns a function that puts each of them into a form in which those that
 * are asked of the same sessions have equal statements: each statement measures all their metrics. With `runningOnce` they
 * cost as much as one of them.
 */
export function shareStatements(specs: readonly StatsSpec[]): <Spec extends StatsSpec>(spec: Spec) => Spec {
  const sharing = Map.groupBy(specs.filter(isShareable), sessionsKey)
  return (spec) => {
    const together = isShareable(spec) ? (sharing.get(sessionsKey(spec)) ?? []) : []
    const askedTogether = [...new Set(together.map(({ metric }) => metric))].sort()
    return askedTogether.length < 2 ? spec : { ...spec, askedTogether }
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
export function runningOnce(runner: QueryRunner): QueryRunner {
  const results = new Map<string, Promise<QueryResult<never>>>()
  return {
    query: (statement, options) => {
      const key = JSON.stringify([statement, options])
      const result = results.get(key) ?? runner.query<never>(statement, options)
      results.set(key, result)
      return result
    },
  }
}
