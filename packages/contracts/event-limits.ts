/** Limits of events (docs/http-interface.md#event-fields). Lengths count code points, sizes count bytes of UTF-8. */
export const eventLimits = {
  siteIdLengthMax: 64,
  eventTypeLengthMax: 64,
  sessionIdLengthMax: 64,
  userIdLengthMax: 64,
  anonymousIdLengthMax: 64,
  eventIdLengthMax: 64,
  urlLengthMax: 2_048,
  referrerLengthMax: 2_048,
  /** Time by which a timestamp may be later than the receipt, in ms. */
  futureMsMax: 24 * 3_600_000,
  /**
   * 1971-01-01, Unix ms: earlier timestamps are seconds sent as milliseconds, or come from a clock that was never set.
   */
  timestampMsMin: Date.UTC(1971, 0, 1),
  /** Bytes of the body of a single event; of the compact JSON, or the line, of an event in a batch. */
  eventBytesMax: 32 * 1024,
  batchEventsMax: 2_000,
  /** Bytes of the body of a batch after decompression. */
  batchBytesMax: 10 * 1024 * 1024,
  /** Rejected events of a batch that are listed; all of them are counted. */
  listedErrorsMax: 100,
  /** Sites that one key may register in any 24 hours. */
  newSitesPerDayMax: 1_000,
  /** Undated copies of an event that arrive within this time, in ms, are stored once. */
  copyWindowMs: 15 * 60_000,
} as const

/** The values of `device_type`. */
export const deviceTypes = ['desktop', 'mobile', 'tablet'] as const

/** Limits of `properties` (docs/http-interface.md#event-fields); keys are counted after flattening. */
export const propertyLimits = {
  keysMax: 100,
  keyLengthMax: 128,
  stringLengthMax: 2_048,
  /** Nesting of the whole event: the event is the first level, `properties` the second. */
  depthMax: 32,
} as const
