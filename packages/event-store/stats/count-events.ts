import type { QueryRunner } from '../clickhouse/query-runner.ts'
import type { StatsPlan } from './spec.ts'
import { type RangeRow, rangeStatement } from './statements.ts'

/**
 * An upper bound of the number of events that a plan reads: the events of its range without filters and groups.
 * ClickHouse answers this from the projection `counts`.
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
