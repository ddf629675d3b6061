import type { Filter } from '@sluice/contracts/conditions'
import { defaultConversionEvent } from '@sluice/contracts/sites'
import { type Comparison, type FilterField, type Grouping, type Metric, statsLimits } from '@sluice/contracts/stats'
import { bucketStarts, exceedsBucketLimit, isTimeUnit, type Range } from '../calendar.ts'
import { QueryTooLargeError } from '../clickhouse/errors.ts'
import type { EventScope } from '../event-scope.ts'
import { comparedRange } from './compared-range.ts'

/** A metric over a range of a site's events. */
export interface StatsSpec extends EventScope {
  metric: Metric
  groupBy?: Grouping
  /** IANA name: where the buckets of a grouping by time begin; UTC by default. */
  timeZone?: string
  /** Values that an event must have. */
  filters?: Partial<Record<FilterField, string>>
  /** Further conditions that an event must meet. */
  conditions?: Filter
  /** The event type that `conversion_rate` counts; `purchase` by default. */
  targetEvent?: string
  /** A second range that is evaluated with the same spec. */
  compare?: Comparison
  /** Maximum number of groups by value that are listed by name. */
  limit?: number
  /** Number of groups by value that are skipped, beginning with the greatest values. */
  offset?: number
  /** Whether estimates are excluded. */
  exact?: boolean
  /**
   * Unix ms: sessions are evaluated as they were at that time, and later events don't count. By default, sessions of
   * the range continue after its end.
   */
  sessionsUntil?: number
  /** Metrics of sessions that are needed at the same time for the same sessions. One statement measures them all. */
  sharedMetrics?: readonly Metric[]
}

/** How sessions are read. */
export interface SessionPlan {
  /** One in this many sessions is read, chosen by the hash of the id; 1: all of them. */
  sampleFactor: number
  /**
   * False: the statement fails with `unusualSessionCode` when a session continues after its 24 h. In groups by value,
   * it also fails when a session begins with several events that have the same time and different values.
   */
  allowsUnusual: boolean
}

/** A spec with all defaults and the starts of its buckets. The statements depend on nothing else. */
export interface StatsPlan extends Required<
  Omit<StatsSpec, 'groupBy' | 'compare' | 'sessionsUntil' | 'sharedMetrics'>
> {
  groupBy: Grouping | undefined
  /** The metrics that statements without groups by value select, including the plan's own. */
  metrics: readonly Metric[]
  sessionsUntil?: number | undefined
  /** Starts of the buckets of a grouping by time, Unix ms, ascending. */
  buckets: readonly number[]
  /** For metrics of sessions. */
  sessions: SessionPlan
  /**
   * The groups by value that may be listed by name; all others are measured together. Undefined: any group may be
   * listed.
   */
  leading?: readonly string[] | undefined
}

/** Completes a spec. Throws QueryTooLargeError for a grouping that makes too many buckets. */
export function planStats(spec: StatsSpec): StatsPlan {
  const { groupBy, timeZone = 'UTC' } = spec
  return { ...withDefaults(spec), buckets: bucketsOf(spec, groupBy, timeZone) }
}

/** The plan for the range that a spec's range is compared with. */
export function planComparison(spec: StatsSpec, comparison: Comparison): StatsPlan {
  const { groupBy, timeZone = 'UTC' } = spec
  const range = comparedRange(spec, comparison, timeZone)
  const buckets = isTimeUnit(groupBy) ? bucketStarts(range, groupBy, timeZone) : []
  return { ...withDefaults(spec), ...range, buckets }
}

function withDefaults({ compare: _, sharedMetrics, ...spec }: StatsSpec): Omit<StatsPlan, 'buckets'> {
  return {
    metrics: sharedMetrics ?? [spec.metric],
    timeZone: 'UTC',
    filters: {},
    conditions: [],
    targetEvent: defaultConversionEvent,
    limit: statsLimits.groupsDefault,
    offset: 0,
    exact: false,
    sessions: { sampleFactor: 1, allowsUnusual: true },
    ...spec,
    groupBy: spec.groupBy,
  }
}

function bucketsOf(range: Range, groupBy: Grouping | undefined, timeZone: string): number[] {
  if (!isTimeUnit(groupBy)) return []
  if (exceedsBucketLimit(range, groupBy)) throw new QueryTooLargeError('buckets')
  const buckets = bucketStarts(range, groupBy, timeZone)
  if (buckets.length > statsLimits.bucketsMax) throw new QueryTooLargeError('buckets')
  return buckets
}
