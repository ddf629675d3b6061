import type { Grouping } from '@sluice/contracts/stats'
import type { QueryResult } from '../client.ts'
import { QueryTooLargeError } from '../errors.ts'
import { distinctKeyOf } from '../metric-keys.ts'
import type { QueryRunner, Statement } from '../query-runner.ts'
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
  /** Events in the range; of fewer events every group is measured. */
  eventsMin: number
  /** One in this many keys is read to find the leading groups. */
  sampleFactor: number
  /** Keys of the sample in the last group that is listed; if it has fewer, every group is measured. */
  sampleMin: number
  /** Groups in the sample, besides twice those that are listed; if it has fewer, every group is measured. */
  groupsMin: number
  /** Characters in the names of the groups that may be listed; if they have more, every group is measured. */
  charactersMax: number
}

const defaultThresholds: LeadingThresholds = {
  eventsMin: 4_000_000,
  sampleFactor: 16,
  sampleMin: 400,
  groupsMin: 1_000,
  // The names are one parameter. It may have 128 KiB (ClickHouse's http_max_field_value_size); an escaped character
  // takes 4.
  charactersMax: 24_576,
}

/**
 * Dimensions that have thousands of values on most large sites. Where there are few, reading the sample saves nothing.
 */
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
 * Finds the groups that may be among the listed ones by a sample of the keys: a set of keys for each of thousands of
 * groups costs most of the time of a distinct count, and all but a few of these groups are measured together in the
 * end. Undefined when every group must be measured, or when that costs no more.
 *
 * The number of a group's keys in the sample has a standard deviation of at most its root. A group that is missed has
 * at least as many keys as one that is 10 roots ahead of it in the sample, which are 7 standard deviations of the
 * difference.
 */
async function leadingGroups(
  plan: StatsPlan,
  runner: QueryRunner,
  { eventsMin, sampleFactor, sampleMin, groupsMin, charactersMax }: LeadingThresholds,
): Promise<string[] | undefined> {
  const key = distinctKeyOf(plan)
  if (key === undefined || plan.exact || !highCardinality.includes(plan.groupBy)) return undefined
  const listed = plan.offset + plan.limit
  // More groups than characters: their names can't fit into the parameter.
  if (listed > charactersMax) return undefined
  if ((await countEvents(plan, runner)) < eventsMin) return undefined
  const groupsMax = groupsMin + 2 * listed
  const rows = await sampledGroups(sampledGroupsStatement(plan, key, { sampleFactor, groupsMax }), runner)
  const last = rows[listed - 1]?.sampled ?? 0
  if (rows.length < groupsMax || last < sampleMin) return undefined
  const leading = rows.filter(({ sampled }) => sampled >= last - 10 * Math.sqrt(last)).map((row) => row.key)
  return leading.length < rows.length && leading.join('').length <= charactersMax ? leading : undefined
}

/** No rows when their names are larger than one result may be. */
async function sampledGroups(statement: Statement, runner: QueryRunner): Promise<SampledGroupRow[]> {
  try {
    return (await runner.query<SampledGroupRow>(statement)).rows
  } catch (error) {
    if (error instanceof QueryTooLargeError && error.limit === 'bytes') return []
    throw error
  }
}
