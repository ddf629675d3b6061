/** Limits of the list of properties that recent events have. */
export const observedPropertiesLimits = {
  /** Days whose events are read. */
  days: 30,
  /** Events that are read, the latest ones. */
  eventsMax: 500_000,
  namesMax: 200,
  valuesMax: 20,
} as const

/** A property of recent events, with its most frequent values. */
export interface ObservedProperty {
  /** The name that conditions use: a field, or `properties.<name>`. */
  name: string
  /** Events that have the property. */
  count: number
  values: { value: string; count: number }[]
}

/** `data` of GET /api/v1/properties (docs/http-interface.md#observed-properties). */
export interface ObservedPropertiesResult {
  properties: ObservedProperty[]
}
