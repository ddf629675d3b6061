import { textLengthsMax } from '@sluice/contracts/event-columns'
import { deviceTypes, eventLimits, propertyLimits } from '@sluice/contracts/event-limits'
import type { IngestContext } from './normalize-event.ts'

/** The encoded row of an event. */
export interface FastRow {
  /** JSON of the `EventRow`. */
  json: string
  siteId: string
  /** The client's `event_id`; undefined when the row has a new one. */
  eventId: string | undefined
  undated: boolean
}

const lengthsMax: ReadonlyMap<string, number> = new Map(Object.entries(textLengthsMax))
const storedDeviceTypes: ReadonlySet<unknown> = new Set(deviceTypes)
const storedCountry = /^[A-Z0-9]{2}$/

/**
 * Encodes the row of an event that has only known fields of the right type and length, flat properties and well-formed
 * texts, at a twentieth of the cost of the joi schema and a row object. Returns undefined for every other event, valid
 * or not: `normalizeEvent` validates those and throws their errors. A property test shows that the two functions agree.
 * `escapeFree` means that the event was parsed from JSON without a backslash, so that no text in it has a character
 * that JSON escapes, a NUL or half of a surrogate pair.
 */
export function encodeRowFast(
  value: unknown,
  { receivedAt, environment, newEventId }: IngestContext,
  escapeFree: boolean,
): FastRow | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const sent = value as Readonly<Record<string, unknown>>
  // Concatenation costs half as much as an object and JSON.stringify.
  let json = `{"environment":"${environment}","received_at":${receivedAt}`
  for (const name in sent) {
    const field = sent[name]
    switch (name) {
      case 'timestamp':
        if (!isValidTimestamp(field, receivedAt)) return undefined
        json += `,"timestamp":${field}`
        break
      case 'country':
        if (typeof field !== 'string' || !storedCountry.test(field)) return undefined
        json += `,"country":"${field}"`
        break
      case 'device_type':
        if (!storedDeviceTypes.has(field)) return undefined
        json += `,"device_type":"${field as string}"`
        break
      case 'properties': {
        const properties = encodePropertiesFast(field, escapeFree)
        if (properties === undefined) return undefined
        json += properties
        break
      }
      default: {
        const text = jsonText(field, lengthsMax.get(name) ?? -1, escapeFree)
        if (text === undefined || text === '') return undefined
        json += `,"${name}":"${text}"`
      }
    }
  }
  const { site_id: siteId, event_type: type, event_id: eventId, timestamp } = sent
  if (siteId === undefined || type === undefined) return undefined
  if (timestamp === undefined) json += `,"timestamp":${receivedAt}`
  if (eventId === undefined) json += `,"event_id":"${newEventId()}"`
  const undated = timestamp === undefined && eventId !== undefined
  return {
    json: undated ? `${json},"undated":1}` : `${json}}`,
    siteId: siteId as string,
    eventId: eventId as string | undefined,
    undated,
  }
}

/**
 * Returns the fields `properties` and `property_types`, each after a comma; '' without properties, undefined for
 * others.
 */
function encodePropertiesFast(value: unknown, escapeFree: boolean): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const sent = value as Readonly<Record<string, unknown>>
  let properties = ''
  let types = ''
  let keys = 0
  for (const key in sent) {
    const name = jsonText(key, propertyLimits.keyLengthMax, escapeFree)
    if (name === undefined || name === '' || ++keys > propertyLimits.keysMax) return undefined
    const item = sent[key]
    let text: string | undefined
    if (typeof item === 'string') {
      text = jsonText(item, propertyLimits.stringLengthMax, escapeFree)
      if (text === undefined) return undefined
    } else if (typeof item === 'boolean' || (typeof item === 'number' && Number.isFinite(item))) {
      text = String(item)
      types += `,"${name}":"${typeof item}"`
    } else return undefined
    properties += `,"${name}":"${text}"`
  }
  if (properties === '') return ''
  const written = `,"properties":{${properties.slice(1)}}`
  return types === '' ? written : `${written},"property_types":{${types.slice(1)}}`
}

/**
 * Returns a text in JSON without its quotes; undefined for other values and for texts of more UTF-16 units than code
 * points are allowed.
 */
function jsonText(value: unknown, lengthMax: number, escapeFree: boolean): string | undefined {
  if (typeof value !== 'string' || value.length > lengthMax) return undefined
  // eslint-disable-next-line no-control-regex -- JSON escapes control characters
  if (escapeFree || !/[\0-\x1f"\\\ud800-\udfff]/.test(value)) return value
  return /[\0\ud800-\udfff]/.test(value) ? undefined : JSON.stringify(value).slice(1, -1)
}

function isValidTimestamp(value: unknown, receivedAt: number): value is number {
  return (
    Number.isInteger(value) &&
    (value as number) >= eventLimits.timestampMsMin &&
    (value as number) <= receivedAt + eventLimits.futureMsMax
  )
}
