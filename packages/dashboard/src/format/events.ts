import { eventFields } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import type { CsvRow } from './csv.ts'
import { formatIso } from './dates.ts'
import { jsonText, LongNumber } from './json.ts'

/** Tells an event from all others of its site: two with one id differ in their time or their environment. */
export const eventKeyOf = ({ timestamp, environment, event_id: id }: StoredEvent): string =>
  `${timestamp}:${environment}:${id}`

/** Inverse of `eventKeyOf`, without the id: where the event is stored. Undefined for a text that is not a key. */
export function parseEventKey(key: string): Pick<StoredEvent, 'timestamp' | 'environment'> | undefined {
  const [, timestamp, environment] = /^(\d{1,15}):(prod|dev):/.exec(key) ?? []
  if (timestamp === undefined || environment === undefined) return undefined
  return { timestamp: Number(timestamp), environment: environment as Environment }
}

/** Fields of a stored event in the order in which they are shown; `properties` come after them. */
const fieldOrder = [
  'event_type',
  'timestamp',
  'received_at',
  'url',
  'referrer',
  'country',
  'device_type',
  'user_id',
  'anonymous_id',
  'session_id',
  'environment',
  'event_id',
  'site_id',
] as const satisfies readonly (keyof StoredEvent)[]

/** A field or property of an event. */
export interface ShownField {
  /** The interface's name: `country`, `properties.plan`. */
  name: string
  value: string
  kind: 'text' | 'number' | 'boolean' | 'time'
  /** Whether a condition may name it. */
  isFilter: boolean
}

/** The kind of a property's value. */
function kindOf(value: unknown): ShownField['kind'] {
  if (value instanceof LongNumber) return 'number'
  return typeof value === 'number' || typeof value === 'boolean' ? (typeof value as 'number' | 'boolean') : 'text'
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : jsonText(value))

/** The contents of an event: its fields in a fixed order, then its properties. Times are ISO 8601 in the zone. */
export function fieldsOf(event: StoredEvent, zone: string): ShownField[] {
  const fields = fieldOrder.flatMap((name): ShownField[] => {
    const value = event[name]
    if (value === undefined) return []
    if (name === 'timestamp' || name === 'received_at')
      return [{ name, value: formatIso(event[name], zone), kind: 'time', isFilter: false }]
    return [{ name, value: String(value), kind: 'text', isFilter: (eventFields as readonly string[]).includes(name) }]
  })
  const properties = Object.entries(event.properties ?? {}).map(([name, value]): ShownField => ({
    name: `properties.${name}`,
    value: textOf(value),
    kind: kindOf(value),
    isFilter: true,
  }))
  return [...fields, ...properties]
}

/** Events as rows of CSV: one column for each field or property that any of them has. */
export function eventRows(events: readonly StoredEvent[], zone: string): CsvRow[] {
  const rows = events.map((event) =>
    Object.fromEntries(fieldsOf(event, zone).map(({ name, value }) => [name, value] as const)),
  )
  const present = new Set(rows.flatMap((row) => Object.keys(row)))
  const columns = [
    ...fieldOrder.filter((name) => present.has(name)),
    ...[...present].filter((name) => name.startsWith('properties.')).sort(),
  ]
  return rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]])))
}

/** The URL of an event, as short as possible: its path and query; all of a text that is not a URL. '' without one. */
export function shortUrl({ url }: StoredEvent): string {
  if (url === undefined) return ''
  try {
    const { pathname, search } = new URL(url)
    return decodeURI(pathname) + search
  } catch {
    return url
  }
}

/** An address that may become a link; undefined for every other scheme. */
export const linkOf = (text: string): string | undefined => (/^https?:\/\//i.test(text) ? text : undefined)
