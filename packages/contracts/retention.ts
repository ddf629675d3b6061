import type { Actor } from './actors.ts'
import type { Environment } from './scopes.ts'

/** Numbers of weeks of a retention analysis. */
export const retentionLimits = { weeksMax: 52, weeksDefault: 12 } as const

/**
 * Which events count as a return in a week: `on` counts events in that week, `on_or_after` also events in any later
 * week.
 */
export const retentionModes = ['on', 'on_or_after'] as const

export type RetentionMode = (typeof retentionModes)[number]

/** The validated query of GET /api/v1/analytics/cohorts (docs/http-interface.md#cohort-analysis). */
export interface CohortAnalysisQuery {
  site_id: string
  cohort_id: string
  weeks: number
  environment?: Environment | 'all'
}

/** The validated query of GET /api/v1/analytics/retention (docs/http-interface.md#retention). */
export interface RetentionQuery {
  site_id: string
  weeks: number
  cohort_id?: string
  return_event?: string
  mode: RetentionMode
  of: Actor
  timezone?: string
  /** Unix ms. */
  end_date?: number
  environment?: Environment | 'all'
}

/** The users of a group that returned in one week. */
export interface RetentionRow {
  /** 0 is the week of the first event, or of the entry into the cohort. */
  week: number
  /** Percent with 2 decimals; 0 for a group without users. */
  retention_rate: number
  /** Users that are counted. */
  cohort_size: number
  returning_users: number
}

/** A row for a week that may not be over. */
export interface CompletableRow extends RetentionRow {
  /** Whether the week is over. */
  complete: boolean
}

/** `data` of GET /api/v1/analytics/cohorts. */
export interface CohortAnalysis {
  cohort_id: string
  site_id: string
  cohort_name: string
  size: number
  retention_by_week: CompletableRow[]
  /** Every event that was received until then and accepted is counted, Unix ms. */
  complete_until: number
}

/** `data` of GET /api/v1/analytics/retention; times are Unix ms. */
export interface RetentionMatrix {
  site_id: string
  weeks: number
  timezone: string
  cohorts: { week_start: number; size: number; retention_by_week: CompletableRow[] }[]
  average: RetentionRow[]
  /** Every event that was received until then and accepted is counted, Unix ms. */
  complete_until: number
}
