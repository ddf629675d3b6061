import { eventLimits } from './event-limits.ts'
import type { Environment } from './scopes.ts'

/** A column of events, wherever events are stored, sent or read. */
export interface EventColumn {
  name: string
  /** Type of the column in the rows that an insert posts to ClickHouse (packages/event-store/insert). */
  externalType: 'String' | 'Int64' | 'UInt8' | 'Map(String, String)'
  /** The column holds Unix ms, which the insert converts to DateTime64. */
  isTime?: true
  /** Code points that a client's text may have (docs/http-interface.md#event-fields). */
  lengthMax?: number
  /** Name of the column in files of imports, where it is another than `name`. */
  csvName?: string
}

/**
 * Columns of an event, in the order of the insert. The structure and the column lists of the insert
 * (packages/event-store/insert) and the lengths of texts that are accepted (packages/events) follow from this list.
 *
 * A new column needs besides: a migration that adds it to the table (packages/event-store/migrations), its key in
 * `EventRow`, and, if clients send it, its key in `EventInput`, its schema in packages/events/event-schema.ts (the
 * order there is the order in which problems are reported) and, unless it is a plain text, an encoder in
 * packages/events/encode-event.ts. Responses and files hold what their lists name:
 * packages/event-store/stored-event.ts, packages/event-store/live, and packages/event-store/exports/events.ts for
 * exports.
 */
export const eventColumns = [
  { name: 'site_id', externalType: 'String', lengthMax: eventLimits.siteIdLengthMax },
  { name: 'environment', externalType: 'String' },
  { name: 'event_type', externalType: 'String', lengthMax: eventLimits.eventTypeLengthMax },
  // An integer, because the meaning of dates as text differs between versions of ClickHouse.
  { name: 'timestamp', externalType: 'Int64', isTime: true, csvName: 'timestamp_ms' },
  { name: 'event_id', externalType: 'String', lengthMax: eventLimits.eventIdLengthMax },
  { name: 'undated', externalType: 'UInt8' },
  { name: 'session_id', externalType: 'String', lengthMax: eventLimits.sessionIdLengthMax },
  { name: 'user_id', externalType: 'String', lengthMax: eventLimits.userIdLengthMax },
  { name: 'anonymous_id', externalType: 'String', lengthMax: eventLimits.anonymousIdLengthMax },
  { name: 'url', externalType: 'String', lengthMax: eventLimits.urlLengthMax },
  { name: 'referrer', externalType: 'String', lengthMax: eventLimits.referrerLengthMax },
  { name: 'country', externalType: 'String' },
  { name: 'device_type', externalType: 'String' },
  { name: 'properties', externalType: 'Map(String, String)' },
  { name: 'property_types', externalType: 'Map(String, String)' },
  { name: 'received_at', externalType: 'Int64', isTime: true },
] as const satisfies readonly EventColumn[]

export type EventColumnName = (typeof eventColumns)[number]['name']

/** Names of the columns that hold a text of the client's with a limited length. */
export type TextColumnName = Extract<(typeof eventColumns)[number], { lengthMax: number }>['name']

/** Code points that the text of each such column may have. */
export const textLengthsMax = Object.fromEntries(
  eventColumns.flatMap((column) => ('lengthMax' in column ? [[column.name, column.lengthMax]] : [])),
) as Readonly<Record<TextColumnName, number>>

/** An event as a client sends it, once its fields are validated; absent fields are left out. */
export interface EventInput {
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

/** Types of properties that are not strings, so that reads return what was sent. An `array` is stored as JSON text. */
export const propertyTypes = ['number', 'boolean', 'array'] as const

export type PropertyType = (typeof propertyTypes)[number]

/**
 * One event as the log carries it and as ClickHouse reads it (JSONEachRow), validated and normalised
 * (packages/events/encode-event.ts). Its keys are the names of `eventColumns`. Absent optional fields are left out;
 * ClickHouse fills in the empty value.
 */
export interface EventRow {
  site_id: string
  environment: Environment
  event_type: string
  /** Unix ms, an integer. */
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
  /** Unix ms at which the gateway received the request. */
  received_at: number
}
