import type { JsonObject } from '@sluice/runtime/json-object'

/** An event as a line of an import holds it; absent fields are undefined. */
export interface ConvertedEvent {
  event_type: string
  timestamp_ms: number
  event_id?: string | undefined
  session_id?: string | undefined
  user_id?: string | undefined
  anonymous_id?: string | undefined
  url?: string | undefined
  referrer?: string | undefined
  country?: string | undefined
  device_type?: string | undefined
  properties?: Record<string, unknown>
}

/** A record of another product: a row of CSV, all of whose values are texts, or a line of NDJSON. */
export type SourceRecord = JsonObject

/** The same event `count` times. */
export interface ConvertedTotal {
  event: ConvertedEvent
  count: number
}

/** The event that a record becomes; undefined for a record that Sluice has no use for. */
export type Conversion = ConvertedEvent | ConvertedTotal | undefined

/** The conversion of another product's exports. */
export interface Converter {
  /**
   * Chooses the conversion by the names of the first record's fields. Throws a Failure when they are not those of an
   * export of this product.
   */
  choose(fields: readonly string[]): (record: SourceRecord) => Conversion
}

/** A record can't become an event; the message says why. */
export class RecordError extends Error {}

/** The text of a field; undefined when it is absent, empty, or the NULL of ClickHouse. */
export function textOf(record: SourceRecord, name: string): string | undefined {
  const value = record[name]
  if (typeof value === 'number') return String(value)
  if (JSON.isRawJSON(value)) return value.rawJSON
  return typeof value === 'string' && value !== '' && value !== '\\N' ? value : undefined
}

/** The text of a field that every record has. */
export function requiredText(record: SourceRecord, name: string): string {
  const text = textOf(record, name)
  if (text === undefined) throw new RecordError(`${name} is missing`)
  return text
}

const timePattern = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(\.\d+)?)?\s*(Z|UTC|[+-]\d\d(?::?\d\d)?)?$/

/** Unix ms of a time as databases write it, `2026-01-31 12:00:00.123+02`. A time without a zone is UTC. */
export function requiredTime(record: SourceRecord, name: string): number {
  const text = requiredText(record, name)
  const [, day = '', time = '00:00:00', fraction = '', zone = 'Z'] = timePattern.exec(text.trim()) ?? []
  const offset =
    zone === 'UTC'
      ? 'Z'
      : zone.replace(/^([+-]\d\d):?(\d\d)?$/, (_all, hours: string, minutes?: string) => `${hours}:${minutes ?? '00'}`)
  const at = Date.parse(`${day}T${time}${fraction.slice(0, 4)}${offset}`)
  if (Number.isNaN(at)) throw new RecordError(`${name} is not a time`)
  return at
}

/** The properties that have a value, under their new names. */
export function propertiesOf(record: SourceRecord, names: Readonly<Record<string, string>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(names).flatMap(([from, to]) => {
      const text = textOf(record, from)
      return text === undefined ? [] : [[to, text]]
    }),
  )
}

const devices: ReadonlyMap<string, string> = new Map([
  ['desktop', 'desktop'],
  ['laptop', 'desktop'],
  ['ultra-wide', 'desktop'],
  ['mobile', 'mobile'],
  ['tablet', 'tablet'],
])

/** The device types of Sluice for the names that other products use; undefined for others. */
export function deviceOf(name: string | undefined): string | undefined {
  return devices.get(name?.toLowerCase() ?? '')
}

/**
 * A country code of two letters; undefined for anything else, because products mark unknown countries in different
 * ways.
 */
export function countryOf(code: string | undefined): string | undefined {
  return code !== undefined && /^[A-Za-z]{2}$/.test(code) && code.toUpperCase() !== 'ZZ' ? code : undefined
}

/** An address whose scheme the product leaves out. */
export function withScheme(address: string | undefined): string | undefined {
  return address === undefined || /^[a-z][a-z0-9+.-]*:/i.test(address) ? address : `https://${address}`
}
