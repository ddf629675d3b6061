import { type Filter, isOneOf } from './conditions.ts'
import type { Environment } from './scopes.ts'
import { hourMs } from './time-units.ts'

/** The metrics, in the order of docs/http-interface.md#stats-parameters. */
export const metrics = [
  'event_count',
  'unique_users',
  'unique_sessions',
  'avg_session_duration',
  'event_count_by_type',
  'bounce_rate',
  'conversion_rate',
  'visitors',
] as const

export type Metric = (typeof metrics)[number]

/** Means over the sessions that begin in the range. Without such a session there is nothing to measure. */
const sessionMetrics = ['avg_session_duration', 'bounce_rate', 'conversion_rate'] as const satisfies Metric[]

export type SessionMetric = (typeof sessionMetrics)[number]

/** Whether the metric is computed from sessions, and not from single events. */
export const isSessionMetric = (metric: Metric): metric is SessionMetric => isOneOf(sessionMetrics, metric)

/** Length of each period in ms. */
export const periods = { '1h': hourMs, '24h': 24 * hourMs, '7d': 7 * 24 * hourMs, '30d': 30 * 24 * hourMs } as const

export type Period = keyof typeof periods

/** Groupings by time. A bucket begins when the unit begins in the time zone; weeks begin on Monday. */
export const timeUnits = ['minute', 'hour', 'day', 'week', 'month'] as const

export type TimeUnit = (typeof timeUnits)[number]

/** Fields that events may be grouped by. */
export const groupFields = ['device_type', 'country', 'event_type', 'url', 'path', 'referrer_host'] as const

export type GroupField = (typeof groupFields)[number]

/** A field or property that events are grouped by. */
export type Dimension = GroupField | `properties.${string}`

/** The value of `group_by`. */
export type Grouping = TimeUnit | Dimension

/** Ranges that a range may be compared with. */
export const comparisons = ['previous_period', 'previous_year'] as const

export type Comparison = (typeof comparisons)[number]

/** Fields with a parameter of their name that filters events. */
export const filterFields = ['country', 'device_type', 'event_type'] as const

export type FilterField = (typeof filterFields)[number]

/** Limits of an answer (docs/http-interface.md#stats-parameters). */
export const statsLimits = {
  /** Buckets of one breakdown. */
  bucketsMax: 5_000,
  /** Longest range that is split into minutes, in hours. */
  minutesHoursMax: 6,
  /** Groups by value that one answer lists by name. */
  groupsMax: 1_000,
  groupsDefault: 100,
  /** Groups by value that may be skipped, so that the next ones are listed. */
  groupsOffsetMax: 100_000,
  /** Entries of one breakdown. Entries by type are pairs of a type and a group, which the other limits do not bound. */
  entriesMax: 100_000,
  /** Entries of all answers of a batch: 20 charts of 5,000 buckets with their comparisons, and more. */
  batchEntriesMax: 250_000,
  /**
   * Characters (UTF-16 units) of all texts, as JSON, in the answers of a batch, and in the query results from which the
   * answers are made.
   */
  batchCharactersMax: 64_000_000,
} as const

/** The validated query of GET /api/v1/stats (docs/http-interface.md#stats-parameters). */
export interface StatsParameters extends Partial<Record<FilterField, string>> {
  site_id: string
  metric: Metric
  start_date?: number
  end_date?: number
  period?: Period
  group_by?: Grouping
  timezone?: string
  target_event?: string
  compare?: Comparison
  environment?: Environment | 'all'
  filter?: Filter
  limit: number
  offset: number
  exact?: boolean
}

/** 2200-01-01, Unix ms: DateTime64 ends a century later, so that a day may be added. */
export const latestMs = Date.UTC(2200, 0, 1)

/**
 * One entry of `data.breakdown` (docs/http-interface.md#stats-breakdown). Entries of groups by value have another
 * field, whose name is their dimension.
 */
export interface BreakdownEntry extends Partial<Record<Dimension, string>> {
  /** Unix ms: start of the bucket; start of the range for groups by value. */
  timestamp: number
  /** The group's value, `''` when its events have none; absent in buckets. */
  key?: string
  value: number
  /** Present when the value is an estimate (docs/http-interface.md#precision). */
  estimated?: true
}

/** A metric over one range. */
export interface MeasuredRange {
  /** The metric over the whole range: a count, percent with 2 decimals or seconds with 3. */
  value: number
  /** Present when the value is an estimate (docs/http-interface.md#precision). */
  estimated?: true
  /** Present with `group_by`, and always for `event_count_by_type`. */
  breakdown?: BreakdownEntry[]
}

/** `data` of GET /api/v1/stats (docs/http-interface.md#stats-answer); all times are Unix ms. */
export interface StatsResult extends MeasuredRange {
  metric: Metric
  /** The request's period, if any. */
  period?: Period
  site_id: string
  start_date: number
  end_date: number
  timezone: string
  /** The request's grouping, if any. */
  group_by?: Grouping
  /** Every event that was accepted before this time is counted. */
  complete_until: number
  compare?: MeasuredRange & { start_date: number; end_date: number }
  /** Time of receipt of the request. */
  timestamp: number
}
