import type { Environment } from './scopes.ts'

/**
 * Types of properties that are not strings, so that exports give back what was sent.
 * `array` is the array's JSON text.
 */
export const propertyTypes = ['number', 'boolean', 'array'] as const

export type PropertyType = (typeof propertyTypes)[number]

/**
 * One event as the log carries it and as ClickHouse reads it (JSONEachRow): what `validate` and `normalise` made of
 * an event of contract section 3. Absent optional fields are left out; ClickHouse fills in the empty value.
 */
export interface EventRow {
  site_id: string
  environment: Environment
  event_type: string
  /** Unix ms, an integer: dates as text would change meaning between ClickHouse versions. */
  timestamp: number
  event_id: string
  /** 1 when the client sent an `event_id` but no timestamp: copies within 15 minutes are one event. */
  undated?: 1
  session_id?: string
  user_id?: string
  anonymous_id?: string
  url?: string
  referrer?: string
  country?: string
  device_type?: string
  /** Flattened properties, every value as text. */
  properties?: Record<string, string>
  /** Only the properties that are not strings. */
  property_types?: Record<string, PropertyType>
  /** Unix ms at which the gateway took the request. */
  received_at: number
}
