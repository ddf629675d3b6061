import type { QueryRunner } from '../query-runner.ts'
import type { StatsPlan } from './spec.ts'
import { type RangeRow, rangeStatement } from './statements.ts'

/**
 * An upper bound of a plan's events: those of its range without its filters and groups, which the projection of counts
 * answers.
 */
export async function countEvents(plan: StatsPlan, runner: QueryRunner): Promise<number> {
  const { rows } = await runner.query<RangeRow>(
    rangeStatement({
      ...plan,
      metric: 'event_count',
      metrics: ['event_count'],
      groupBy: undefined,
      buckets: [],
      filters: {},
      conditions: [],
    }),
  )
  return rows[0]?.event_count ?? 0
}
