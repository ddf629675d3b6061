import { statsLimits } from '@sluice/contracts/stats'
import { isSessionMetric } from '@sluice/contracts/stats'
import { isTimeUnit } from '../calendar.ts'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { distinctKeyOf } from '../metric-keys.ts'
import { bucketGroups, type StatsGroup, typeGroups } from './groups.ts'
import { measureGroups, totalOf } from './measure-groups.ts'
import { measureSessions, retryAllowingUnusual, type SessionsNumber } from './measure-sessions.ts'
import { planComparison, planStats, type StatsPlan, type StatsSpec } from './spec.ts'
import {
  type BucketRow,
  bucketsStatement,
  type DistinctBucketsRow,
  distinctBucketsStatement,
  type RangeRow,
  rangeStatement,
  type TypeRow,
  typesStatement,
} from './statements.ts'

/** A metric over one range. */
export interface RangeNumbers {
  /** Start of the range, Unix ms, inclusive. */
  start: number
  /** End of the range, Unix ms, exclusive. */
  end: number
  /** The metric over the whole range: a count, percent with 2 decimals or seconds with 3. */
  value: number
  /** Whether the value is an estimate (docs/http-interface.md#precision). */
  isEstimated: boolean
  /** Present with `groupBy`, and always for `event_count_by_type`. */
  groups?: StatsGroup[]
}

/** A metric over the range of its spec. */
export interface StatsNumbers extends RangeNumbers {
  /** The numbers of the range that the spec's range is compared with; present with `compare`. */
  compared?: RangeNumbers
}

/**
 * Evaluates a metric (docs/http-interface.md#stats-answer). Throws QueryTooLargeError with the limit `buckets` for too
 * many groups by time, `rows` for too many pairs of event types and groups, `resources` for too many events.
 */
export async function evaluateStats(spec: StatsSpec, runner: QueryRunner): Promise<StatsNumbers> {
  const plan = planStats(spec)
  const [numbers, compared] = await Promise.all([
    evaluateRange(plan, runner),
    spec.compare === undefined ? undefined : evaluateRange(planComparison(spec, spec.compare), runner),
  ])
  return { ...numbers, ...(compared && { compared }) }
}

/**
 * Evaluates a metric of sessions over the range of a spec without grouping, and whether there is any session. Throws
 * as `evaluateStats` does.
 */
export function evaluateSessions(spec: StatsSpec, runner: QueryRunner): Promise<SessionsNumber> {
  return measureSessions(planStats(spec), runner)
}

async function evaluateRange(plan: StatsPlan, runner: QueryRunner): Promise<RangeNumbers> {
  const { start, end, metric, groupBy } = plan
  if (!isSessionMetric(metric)) return { start, end, ...(await runPlan(plan, runner)) }
  if (groupBy === undefined) {
    const { value, isEstimated } = await measureSessions(plan, runner)
    return { start, end, value, isEstimated }
  }
  const numbers = await retryAllowingUnusual(1, (sessions) => runPlan({ ...plan, sessions }, runner))
  return { start, end, ...numbers }
}

async function runPlan(plan: StatsPlan, runner: QueryRunner): Promise<Omit<RangeNumbers, 'start' | 'end'>> {
  const { metric, groupBy } = plan
  if (metric === 'event_count_by_type') {
    const types = await runner.query<TypeRow>(typesStatement(plan), { rowsMax: statsLimits.entriesMax })
    return { ...totalOf(types), groups: typeGroups(plan, types.rows) }
  }
  if (groupBy === undefined) {
    const { rows } = await runner.query<RangeRow>(rangeStatement(plan))
    const { [metric]: value = 0, estimated = 0 } = rows[0] ?? {}
    return { value, isEstimated: estimated !== 0 }
  }
  if (isTimeUnit(groupBy)) return runBuckets(plan, runner)
  return measureGroups(plan, runner)
}

async function runBuckets(plan: StatsPlan, runner: QueryRunner): Promise<Omit<RangeNumbers, 'start' | 'end'>> {
  const { metric, exact } = plan
  const key = distinctKeyOf(plan)
  if (key === undefined || exact) {
    const { rows, totals } = await runner.query<BucketRow>(bucketsStatement(plan))
    const values = new Map(rows.map((row) => [row.start, row[metric]]))
    return { value: totals?.[metric] ?? 0, isEstimated: false, groups: bucketGroups(plan, values) }
  }
  const { rows } = await runner.query<DistinctBucketsRow>(distinctBucketsStatement(plan, key))
  const { value = 0, estimated = 0, starts = [], counts = [] } = rows[0] ?? {}
  const values = new Map(starts.map((start, index) => [start, counts[index]]))
  return { value, isEstimated: estimated !== 0, groups: bucketGroups(plan, values) }
}
