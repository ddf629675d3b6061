import type { Actor } from './actors.ts'
import type { Filter } from './conditions.ts'
import type { Environment } from './scopes.ts'
import type { Period } from './stats.ts'
import { dayMs } from './time-units.ts'

/** Limits of funnels: numbers of steps, and times between the first and the last one. */
export const funnelLimits = {
  stepsMin: 2,
  stepsMax: 8,
  windowDefaultMs: 7 * dayMs,
  windowMsMax: 365 * dayMs,
} as const

/** The events that meet a step. */
export interface FunnelStep {
  event_type: string
  conditions?: Filter
}

/** The validated body of POST /api/v1/funnel (docs/http-interface.md#funnel). */
export interface FunnelBody {
  site_id: string
  steps: FunnelStep[]
  /** Longest time from the first step to the last one, in ms. */
  window?: number
  start_date?: number
  end_date?: number
  period?: Period
  environment?: Environment | 'all'
  of?: Actor
}

/** `data` of POST /api/v1/funnel; times are Unix ms, rates percent with 2 decimals. */
export interface FunnelResult {
  site_id: string
  start_date: number
  end_date: number
  steps: { event_type: string; users: number; rate_from_first: number; rate_from_previous: number }[]
  /** Every event that was accepted before this time is counted. */
  complete_until: number
}
