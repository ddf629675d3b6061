import type { Filter } from '@sluice/contracts/conditions'
import { invalidField } from '@sluice/contracts/errors'
import type { Environment } from '@sluice/contracts/scopes'
import type { SiteSettings } from '@sluice/contracts/sites'
import {
  type Comparison,
  filterFields,
  type FilterField,
  type Grouping,
  type Metric,
  type Period,
  periods,
  statsLimits,
  type StatsParameters,
  statsQuery,
} from '@sluice/contracts/stats'
import { validate } from '@sluice/contracts/validate'
import { timeZoneId } from '../time-zone.ts'
import { bucketStarts, isFarTooLong, isTimeUnit, type Range } from './buckets.ts'

/** What `conversion_rate` counts unless `target_event` or the site says otherwise. */
const defaultTargetEvent = 'purchase'

/** A stats request, checked and resolved: nothing in it depends on the clock or on the site's settings any more. */
export interface StatsQuestion {
  siteId: string
  metric: Metric
  /** Unix ms, inclusive. */
  start: number
  /** Unix ms, exclusive; `start < end`. */
  end: number
  /** As asked; it shaped the range unless both dates were given. */
  period?: Period
  groupBy?: Grouping
  /** Starts of the buckets of a grouping by time, Unix ms. */
  buckets: readonly number[]
  timeZone: string
  /** Values that an event must have. */
  filters: Partial<Record<FilterField, string>>
  /** What else an event must meet. */
  conditions: Filter
  targetEvent: string
  compare?: Comparison
  environment: Environment | 'all'
  /** Most groups by value that are listed by name. */
  limit: number
  /** Nothing may be estimated. */
  exact: boolean
}

/** What of a site's settings shapes an answer. */
export type SiteDefaults = Pick<SiteSettings, 'timezone' | 'conversion_event'>

/** A stats request whose parameters are right in themselves. */
export interface StatsRequest {
  siteId: string
  metric: Metric
  /** Throws the 400 of a grouping that makes too many buckets in the time zone. */
  toQuestion(site: SiteDefaults): StatsQuestion
}

/** Parameters as a query string has them, or as JSON does: `filter` may then be a list. */
export type GivenParameters = Readonly<Record<string, unknown>>

/**
 * Reads the parameters of a stats request (contract section 4). `now` (Unix ms) is where open ranges end; `environment`
 * is the credential's, which a read sees unless it asks for another.
 * Throws the 400 for the first problem in the order of the contract's table.
 */
export function readStatsRequest(
  given: GivenParameters,
  { now, environment, schema = statsQuery }: { now: number; environment: Environment; schema?: typeof statsQuery },
): StatsRequest {
  const parameters = validate(schema, given)
  const range = rangeOf(parameters, now)
  const { site_id: siteId, metric, period, group_by: groupBy, compare } = parameters
  return {
    siteId,
    metric,
    toQuestion: (site) => {
      const timeZone = timeZoneId(parameters.timezone ?? site.timezone)
      return {
        siteId,
        metric,
        ...range,
        ...(period === undefined ? {} : { period }),
        ...(groupBy === undefined ? {} : { groupBy }),
        buckets: bucketsOf(groupBy, range, timeZone),
        timeZone,
        filters: Object.fromEntries(
          filterFields.flatMap((field) => (parameters[field] === undefined ? [] : [[field, parameters[field]]])),
        ),
        conditions: parameters.filter ?? [],
        targetEvent: parameters.target_event ?? site.conversion_event ?? defaultTargetEvent,
        ...(compare === undefined ? {} : { compare }),
        environment: parameters.environment ?? environment,
        limit: parameters.limit,
        exact: parameters.exact ?? false,
      }
    },
  }
}

/** Explicit dates win over the period; a range without an end ends now, one without a start is a period (or 24 h) long. */
export function rangeOf(parameters: Pick<StatsParameters, 'start_date' | 'end_date' | 'period'>, now: number): Range {
  const { start_date: startDate, end_date: endDate, period = '24h' } = parameters
  const end = endDate ?? now
  const start = startDate ?? end - periods[period]
  if (start >= end) {
    throw invalidField('start_date', endDate === undefined ? 'must be before now' : 'must be before end_date')
  }
  return { start, end }
}

function bucketsOf(groupBy: Grouping | undefined, range: Range, timeZone: string): number[] {
  if (!isTimeUnit(groupBy)) return []
  const buckets = isFarTooLong(range, groupBy) ? undefined : bucketStarts(range, groupBy, timeZone)
  if (buckets !== undefined && buckets.length <= statsLimits.bucketsMax) return buckets
  throw invalidField(
    'group_by',
    `must make at most ${statsLimits.bucketsMax} buckets of the range: ask for a shorter one, or for longer buckets`,
  )
}
