import { isAbsent } from '@sluice/contracts/absent-field'
import { textLengthsMax } from '@sluice/contracts/event-columns'
import { deviceTypes, eventLimits } from '@sluice/contracts/event-limits'
import type { Environment } from '@sluice/contracts/scopes'
import { invalidFormat } from '@sluice/runtime/errors'
import { isJsonObject, type JsonObject } from '@sluice/runtime/json-object'
import { doubleOf } from '@sluice/runtime/parse-exactly'
import { hasMoreCodePoints } from '@sluice/runtime/schemas'
import { EncodedProperties, eventLevel, propertiesLevel } from './encode-properties.ts'
import { eventTooLarge } from './event-errors.ts'
import { newEventId } from './event-id.ts'
import { validateKnownFields } from './event-schema.ts'
import { jsonText } from './json-text.ts'
import { keyHash } from './key-hash.ts'

/** One event for the log: its row as a JSON line, with the values that decide its partition and block. */
export interface EncodedEvent {
  /** JSON of the `EventRow`, with `\n` at the end. */
  line: string
  /** Unix ms. */
  timestamp: number
  /**
   * Hash of (site_id, event_id) when the client sent the id, because copies must be in one partition. Undefined
   * otherwise.
   */
  keyHash: number | undefined
  undated: boolean
  siteId: string
}

/** A valid event in its encoded form, with a bound of its size. */
export interface ValidEvent extends EncodedEvent {
  /** Upper bound of the bytes of the event's compact JSON. */
  bytesAtMost: number
}

export interface EncodeContext {
  /** Time of receipt, Unix ms. */
  receivedAt: number
  /** Environment of the credential, in which the event is stored. */
  environment: Environment
  /** Maximum bytes of the event's compact JSON. Undefined when the size of the sent JSON was checked already. */
  bytesMax?: number | undefined
}

/** Returns a present field as JSON text for the row, after a comma; undefined for an invalid field. */
type FieldEncoder = (field: unknown, receivedAt: number) => string | undefined

const storedDeviceTypes: ReadonlySet<string> = new Set(deviceTypes)
const countryCode = /^[A-Za-z0-9]{2}$/

/** The known fields but `properties`. */
const encoders: ReadonlyMap<string, FieldEncoder> = new Map<string, FieldEncoder>([
  ...Object.entries(textLengthsMax).map(([name, lengthMax]): [string, FieldEncoder] => [
    name,
    textEncoder(name, lengthMax),
  ]),
  ['timestamp', encodeTimestamp],
  [
    'country',
    (field) =>
      typeof field === 'string' && countryCode.test(field) ? `,"country":"${field.toUpperCase()}"` : undefined,
  ],
  [
    'device_type',
    (field) => {
      const type = typeof field === 'string' ? field.toLowerCase() : ''
      return storedDeviceTypes.has(type) ? `,"device_type":"${type}"` : undefined
    },
  ],
])

/** Maximum number of characters that a field takes in the client's JSON, without a text that the row contains too. */
const fieldLengthMax = 32
/** Maximum bytes of a UTF-16 unit in the client's JSON. An escaped half of a surrogate pair takes six. */
const bytesPerUnitMax = 6

/**
 * Validates, normalises and encodes a parsed event (docs/http-interface.md#event-fields) for the log, in one pass:
 * country in upper case, device_type in lower case, no fractions of milliseconds, flattened properties, and unknown
 * fields as properties. Throws an AppError (400) for the first problem, in the order of that section. Throws an
 * AppError `too_large` for an event of more than `bytesMax`.
 */
export function encodeEvent(value: unknown, context: EncodeContext): ValidEvent {
  if (!isJsonObject(value)) throw invalidFormat('an event must be a JSON object')
  const event = value
  const properties = new EncodedProperties()
  let encoded: ValidEvent
  try {
    encoded = encodeFields(event, properties, context)
  } catch (error) {
    // A problem of a known field is reported before a problem of a property.
    validateKnownFields(event, context.receivedAt)
    throw error
  }
  const { bytesMax = Infinity } = context
  if (encoded.bytesAtMost > bytesMax && Buffer.byteLength(JSON.stringify(event)) > bytesMax) throw eventTooLarge()
  return encoded
}

/**
 * Throws the AppError of an invalid property. For an invalid known field it throws an Error, because only the schema
 * can word the message. A property test shows that this function and the schema agree.
 */
function encodeFields(
  event: JsonObject,
  properties: EncodedProperties,
  { receivedAt, environment }: EncodeContext,
): ValidEvent {
  let sentProperties: JsonObject | undefined
  let hasUnknownFields = false
  let fields = 0
  // Concatenation costs half as much as an object and JSON.stringify.
  let json = `{"environment":"${environment}","received_at":${receivedAt}`

  for (const name in event) {
    const field = event[name]
    fields++
    const encode = encoders.get(name)
    if (encode !== undefined) {
      if (isAbsent(field)) continue
      const encoded = encode(field, receivedAt)
      if (encoded === undefined) throw unexplained()
      json += encoded
    } else if (name !== 'properties') {
      hasUnknownFields = true
      properties.add(name, field, eventLevel)
    } else if (!isAbsent(field)) sentProperties = objectOf(field)
  }
  const { site_id: sentSiteId, event_type: eventType, event_id: sentEventId } = event
  if (isAbsent(sentSiteId) || isAbsent(eventType)) throw unexplained()
  if (sentProperties !== undefined) {
    if (hasUnknownFields) properties.mayRepeat ||= haveCommonName(sentProperties, event)
    properties.addAll(sentProperties, propertiesLevel)
  }

  const siteId = (sentSiteId as string).toWellFormed()
  const eventId = isAbsent(sentEventId) ? undefined : (sentEventId as string).toWellFormed()
  const timestamp = isAbsent(event.timestamp) ? undefined : Math.trunc(doubleOf(event.timestamp) as number)
  const undated = timestamp === undefined && eventId !== undefined
  if (timestamp === undefined) json += `,"timestamp":${receivedAt}`
  if (eventId === undefined) json += `,"event_id":"${newEventId(receivedAt)}"`
  if (undated) json += ',"undated":1'
  const line = `${json}${properties.toJson()}}\n`
  return {
    line,
    keyHash: eventId === undefined ? undefined : keyHash(siteId, eventId),
    undated,
    siteId,
    timestamp: timestamp ?? receivedAt,
    bytesAtMost:
      bytesPerUnitMax * (line.length + properties.omittedLength + fields * fieldLengthMax) + digitsOf(event.timestamp),
  }
}

/** Characters of a number that was parsed with all digits, of which the row has the whole part only. */
function digitsOf(timestamp: unknown): number {
  return typeof timestamp === 'object' && JSON.isRawJSON(timestamp) ? timestamp.rawJSON.length : 0
}

function textEncoder(name: string, lengthMax: number): FieldEncoder {
  const start = `,"${name}":"`
  return (field) => {
    if (typeof field !== 'string' || (field.length > lengthMax && hasMoreCodePoints(field, lengthMax))) return undefined
    const text = jsonText(field)
    return text === undefined ? undefined : `${start}${text}"`
  }
}

function encodeTimestamp(field: unknown, receivedAt: number): string | undefined {
  const ms = doubleOf(field)
  const isValid =
    typeof ms === 'number' && ms >= eventLimits.timestampMsMin && ms <= receivedAt + eventLimits.futureMsMax
  return isValid ? `,"timestamp":${Math.trunc(ms)}` : undefined
}

function objectOf(field: unknown): JsonObject {
  if (!isJsonObject(field)) throw unexplained()
  return field
}

function haveCommonName(object: JsonObject, other: JsonObject): boolean {
  for (const name in object) if (name in other) return true
  return false
}

/** Thrown only if the schema accepts a field that `encodeFields` refuses, which would be a mistake in one of them. */
function unexplained(): Error {
  return new Error('an event was refused for a field that its schema accepts')
}
