/** Limits of contract section 3. Lengths count code points, sizes count bytes of UTF-8. */
export const eventLimits = {
  siteIdLengthMax: 64,
  eventTypeLengthMax: 64,
  sessionIdLengthMax: 64,
  userIdLengthMax: 64,
  anonymousIdLengthMax: 64,
  eventIdLengthMax: 64,
  urlLengthMax: 2_048,
  referrerLengthMax: 2_048,
  /** Later than the time of receipt by more than this: refused. */
  futureMsMax: 24 * 3_600_000,
  /** 1971-01-01: earlier ones are seconds sent as milliseconds, or a clock that was never set. */
  timestampMsMin: Date.UTC(1971, 0, 1),
  /** An event alone: its body; one of a batch: its compact JSON, or its line. */
  eventBytesMax: 32 * 1024,
  batchEventsMax: 2_000,
  /** After decompression. */
  batchBytesMax: 10 * 1024 * 1024,
  /** All rejected events of a batch are counted, this many are listed. */
  listedErrorsMax: 100,
  /** Sites that one key may register in any 24 hours. */
  newSitesPerDayMax: 1_000,
  /** Undated copies of an event that arrive within this time are one. */
  copyWindowMs: 15 * 60_000,
} as const

export const deviceTypes = ['desktop', 'mobile', 'tablet'] as const

/** An event as it may be sent, once its fields are known to be right; absent ones are left out. */
export interface SentEvent {
  site_id: string
  event_type: string
  timestamp?: number
  session_id?: string
  user_id?: string
  url?: string
  referrer?: string
  country?: string
  device_type?: string
  anonymous_id?: string
  event_id?: string
  properties?: object
}
