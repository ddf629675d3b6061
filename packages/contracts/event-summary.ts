/** `data` of a delivery `event_summary`: a site's events of one hour or day of its time zone. */
export interface EventSummary {
  /** Unix ms, inclusive. */
  period_start: number
  /** Unix ms, exclusive. */
  period_end: number
  event_count: number
  unique_users: number
  unique_sessions: number
  /** Percent with 2 decimals. */
  bounce_rate: number
  /** The most frequent types, the first one the most. */
  top_event_types: readonly { event_type: string; count: number }[]
}

/** How many types a summary names. */
export const topEventTypesMax = 10
