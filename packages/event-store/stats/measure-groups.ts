import type { Grouping } from '@sluice/contracts/stats'
import type { QueryResult } from '../clickhouse/client.ts'
import { QueryTooLargeError } from '../clickhouse/errors.ts'
import type { QueryRunner, Statement } from '../clickhouse/query-runner.ts'
import { distinctKeyOf } from '../metric-keys.ts'
import { countEvents } from './count-events.ts'
import { type StatsGroup, valueGroups } from './groups.ts'
import type { StatsPlan } from './spec.ts'
import {
  type GroupRow,
  groupsStatement,
  type SampledGroupRow,
  sampledGroupsStatement,
  type ValueRow,
} from './statements.ts'

/** The sizes at which the leading groups of a distinct count are found first (docs/decisions/041-leading-groups.md). */
export interface LeadingThresholds {
  /** Minimum number of events in the range. With fewer events, every group is measured. */
  eventsMin: number
  /** One in this many keys is read to find the leading groups. */
  sampleFactor: number
  /** Minimum number of sampled keys in the last listed group. With fewer keys, every group is measured. */
  sampleMin: number
  /**
   * Minimum number of groups in the sample, in addition to twice the listed ones. With fewer groups, every group is
   * measured.
   */
  groupsMin: number
  /** Maximum number of characters in the names of the groups that may be listed. With more, every group is measured. */
  charactersMax: number
}

const defaultThresholds: LeadingThresholds = {
  eventsMin: 4_000_000,
  sampleFactor: 16,
  sampleMin: 400,
  groupsMin: 1_000,
  // The names are one parameter, which may have 128 KiB (ClickHouse's http_max_field_value_size). An escaped character
  // takes 4 bytes.
  charactersMax: 24_576,
}

/** Dimensions that have thousands of values on most large sites. With few values, reading the sample saves nothing. */
const highCardinality: readonly (Grouping | undefined)[] = ['path', 'url']

/** A metric over a range and in each of its groups. */
export interface GroupedNumbers {
  value: number
  isEstimated: boolean
  groups: StatsGroup[]
}

/** Measures the metric in groups by value. */
export async function measureGroups(
  plan: StatsPlan,
  runner: QueryRunner,
  thresholds: LeadingThresholds = defaultThresholds,
): Promise<GroupedNumbers> {
  const leading = await leadingGroups(plan, runner, thresholds)
  const result = await runner.query<GroupRow>(groupsStatement({ ...plan, leading }))
  return { ...totalOf(result), groups: valueGroups(plan, result.rows) }
}

/** The value in the row of WITH TOTALS. */
export function totalOf({ totals }: QueryResult<ValueRow>): Pick<GroupedNumbers, 'value' | 'isEstimated'> {
  const { value = 0, estimated = 0 } = totals ?? {}
  return { value, isEstimated: estimated !== 0 }
}

/**
 * Finds by a sample of the keys which groups may be among the listed ones. A distinct count in groups spends most of
 * its time on building a set of keys for each of thousands of groups, and all but a few of these groups are combined in
 * the end. Returns undefined when every group must be measured, or when a sample saves nothing.
 *
 * A sampled count n varies with a standard deviation of at most √n, and the difference of two such counts with at most
 * √(2n). Groups within 10·√n of the last listed group are measured too, so a group is missed only if the sample is off
 * by 7 standard deviations.
 */
async function leadingGroups(
  plan: StatsPlan,
  runner: QueryRunner,
  { eventsMin, sampleFactor, sampleMin, groupsMin, charactersMax }: LeadingThresholds,
): Promise<string[] | undefined> {
  const key = distinctKeyOf(plan)
  if (key === undefined || plan.exact || !highCardinality.includes(plan.groupBy)) return undefined
  const listed = plan.offset + plan.limit
  // The list is longer than the allowed characters, so the names can't fit into the parameter.
  if (listed > charactersMax) return undefined
  if ((await countEvents(plan, runner)) < eventsMin) return undefined
  const groupsMax = groupsMin + 2 * listed
  const rows = await sampledGroups(sampledGroupsStatement(plan, key, { sampleFactor, groupsMax }), runner)
  const last = rows[listed - 1]?.sampled ?? 0
  if (rows.length < groupsMax || last < sampleMin) return undefined
  const leading = rows.filter(({ sampled }) => sampled >= last - 10 * Math.sqrt(last)).map((row) => row.key)
  return leading.length < rows.length && leading.join('').length <= charactersMax ? leading : undefined
}

/** Returns no rows when their names exceed the size limit of a result. */
async function sampledGroups(statement: Statement, runner: QueryRunner): Promise<SampledGroupRow[]> {
  try {
    return (await runner.query<SampledGroupRow>(statement)).rows
  } catch (error) {
    if (error instanceof QueryTooLargeError && error.limit === 'bytes') return []
    throw error
  }
}
