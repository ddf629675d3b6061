import type { PropertyType } from '@sluice/contracts/event-columns'
import type { Environment } from '@sluice/contracts/scopes'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { parseExactly } from '@sluice/runtime/parse-exactly'

/** An event with all its columns; `''` stands for an absent value. */
export interface StoredEventRow {
  event_id: string
  site_id: string
  event_type: string
  /** Unix ms, as `received_at_ms`. */
  timestamp_ms: number
  received_at_ms: number
  environment: Environment
  session_id: string
  user_id: string
  anonymous_id: string
  url: string
  referrer: string
  country: string
  device_type: string
  properties: Record<string, string>
  property_types: Record<string, PropertyType>
}

/**
 * SQL of the columns of a StoredEventRow, for a SELECT from `events`. The columns of times get other names, because an
 * alias `timestamp` would replace the column in the conditions of the statement too.
 */
export const storedEventColumns = `
    event_id, site_id, event_type, toUnixTimestamp64Milli(timestamp) AS timestamp_ms,
    toUnixTimestamp64Milli(received_at) AS received_at_ms, environment, session_id, user_id, anonymous_id, url, referrer,
    country, device_type, properties, property_types`

/** Leaves out empty fields; properties get the types that they were sent with. */
export function toStoredEvent(row: StoredEventRow): StoredEvent {
  const { event_id, site_id, event_type, timestamp_ms, received_at_ms, properties, property_types, ...optional } = row
  const present = Object.entries(optional).filter(([, value]) => value !== '')
  const typed = Object.entries(properties).map(([name, text]) => [
    name,
    // The name of a property may be that of a member that every object has, such as `__proto__`.
    parseProperty(text, Object.hasOwn(property_types, name) ? property_types[name] : undefined),
  ])
  return {
    event_id,
    site_id,
    event_type,
    timestamp: timestamp_ms,
    received_at: received_at_ms,
    ...(Object.fromEntries(present) as Pick<StoredEvent, keyof typeof optional>),
    ...(typed.length === 0 ? {} : { properties: Object.fromEntries(typed) as Record<string, unknown> }),
  }
}

function parseProperty(text: string, type: PropertyType | undefined): unknown {
  // Values other than strings are stored as JSON text, with the digits that a double can't hold.
  return type === undefined ? text : parseExactly(text)
}
