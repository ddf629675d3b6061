import { hash } from 'node:crypto'
import { textLengthsMax } from '@sluice/contracts/event-columns'
import { propertyLimits } from '@sluice/contracts/event-limits'
import { knownFields } from '@sluice/events/event-schema'
import { AppError, invalidField, invalidFormat, missingField } from '@sluice/runtime/errors'
import { isJsonObject, type JsonObject } from '@sluice/runtime/json-object'
import { hasMoreCodePoints } from '@sluice/runtime/schemas'
import { parseTimestamp } from './parse-timestamp.ts'
import { PropertyNames } from './property-names.ts'

/** The calls of Segment's tracking API. */
export const messageTypes = ['track', 'page', 'screen', 'identify', 'group', 'alias'] as const

export type MessageType = (typeof messageTypes)[number]

/** A message of Segment's tracking API as an event. */
export interface MappedMessage {
  /** The event in the form of `POST /collect`, not validated yet (`encodeEvent` does that). */
  event: JsonObject
  /** Replaces the field name in an error with the message's own: `user_id` becomes `userId`. */
  explain: (error: AppError) => AppError
}

/** The event type of each call except `track`, whose event type is its `event`. */
const eventTypes = {
  page: 'page_view',
  screen: 'screen_view',
  identify: 'identify',
  group: 'group',
  alias: 'alias',
} as const

/** The field whose members become the event's properties. */
const payloadFields: Readonly<Record<MessageType, 'properties' | 'traits' | undefined>> = {
  track: 'properties',
  page: 'properties',
  screen: 'properties',
  identify: 'traits',
  group: 'traits',
  alias: undefined,
}

/**
 * Fields that are mapped or not stored. `writeKey` is a secret. `sentAt` and `_metadata` differ between the copies of
 * one message. `integrations` tells Segment where to send the message.
 */
const handledFields: readonly string[] = [
  'type',
  'messageId',
  'userId',
  'anonymousId',
  'timestamp',
  'context',
  'writeKey',
  'sentAt',
  '_metadata',
  'integrations',
]

const utmNames: readonly (readonly [member: string, property: string])[] = [
  ['source', 'utm_source'],
  ['medium', 'utm_medium'],
  ['name', 'utm_campaign'],
  ['term', 'utm_term'],
  ['content', 'utm_content'],
]

/**
 * Maps a message to an event in the form of `POST /collect` (docs/http-interface.md#segment-mapping). `siteId`: the
 * site of the key. `routeType`: the call of the path; undefined in a batch, where each message has its own `type`.
 *
 * Fields that are neither mapped nor dropped become properties. Throws an AppError (400) for a message without a valid
 * type, and for fields with wrong types that the validation of the event could not find after the mapping.
 */
export function mapMessage(value: unknown, siteId: string, routeType?: MessageType): MappedMessage {
  if (!isJsonObject(value)) throw invalidFormat('a message must be a JSON object')
  const type = typeOf(value, routeType)
  const payloadField = payloadFields[type]
  const names = new Map([
    ['event_id', 'messageId'],
    ['user_id', 'userId'],
    ['anonymous_id', 'anonymousId'],
  ])
  const rest = new Map(Object.entries(value))
  for (const name of handledFields) rest.delete(name)
  const properties = new Map(payloadField === undefined ? [] : Object.entries(takeObject(rest, payloadField)))
  const context = new Map(Object.entries(objectOf(value.context, 'context')))
  const page = takeMembers(context, 'page')

  const event: Record<string, unknown> = { site_id: siteId, event_type: eventTypeOf(type, rest) }
  if (type === 'track') names.set('event_type', 'event')
  event.timestamp = timestampOf(value, rest, names)
  const messageId = idOf(value, 'messageId')
  if (messageId !== undefined) {
    const isLong = hasMoreCodePoints(messageId, textLengthsMax.event_id)
    event.event_id = isLong ? hash('sha256', messageId.toWellFormed()) : messageId
    if (isLong) rest.set('messageId', messageId)
  }
  event.user_id = idOf(value, 'userId')
  event.anonymous_id = idOf(value, 'anonymousId')
  event.session_id = takeSession(context, value.integrations, names)
  event.url = takeAddress('url', type, { properties, page, names })
  event.referrer = takeAddress('referrer', type, { properties, page, names })
  if (type === 'identify') dropRepeatedTraits(context, properties)
  const stored = { properties, names, taken: new PropertyNames(properties.keys()) }
  moveTitle(page, stored)
  moveCampaign(context, stored)
  // IP addresses of visitors are not stored.
  context.delete('ip')

  if (page.size > 0) context.set('page', Object.fromEntries(page))
  if (context.size > 0) rest.set('context', Object.fromEntries(context))
  keepRest(rest, event, stored)
  event.properties = Object.fromEntries(properties)
  return { event, explain: (error) => rename(error, names, payloadField ?? 'properties') }
}

function typeOf(message: JsonObject, routeType: MessageType | undefined): MessageType {
  const { type } = message
  if (type === undefined || type === null || type === '') {
    if (routeType === undefined) throw missingField('type')
    return routeType
  }
  const known = messageTypes.find((each) => each === type)
  if (known === undefined) throw invalidField('type', `must be one of: ${messageTypes.join(', ')}`)
  if (routeType !== undefined && known !== routeType) throw invalidField('type', `must be ${routeType} at this path`)
  return known
}

function eventTypeOf(type: MessageType, rest: Map<string, unknown>): unknown {
  if (type !== 'track') return eventTypes[type]
  const name = rest.get('event')
  rest.delete('event')
  if (name === undefined || name === null || name === '') throw missingField('event')
  return name
}

/** The time at which the message was created: `timestamp`, or `originalTimestamp` of older clients. */
function timestampOf(message: JsonObject, rest: Map<string, unknown>, names: Map<string, string>): number | undefined {
  const ms = parseTimestamp(message.timestamp, 'timestamp')
  if (ms !== undefined) return ms
  rest.delete('originalTimestamp')
  names.set('timestamp', 'originalTimestamp')
  return parseTimestamp(message.originalTimestamp, 'originalTimestamp')
}

/** An id as a string. Some clients send numbers. */
function idOf(message: JsonObject, name: string): string | undefined {
  const id = message[name]
  if (id === undefined || id === null || id === '') return undefined
  const text = typeof id === 'string' ? id : digitsOf(id)
  if (text === undefined) throw invalidField(name, 'must be a string')
  return text
}

/** The digits of an integer; undefined for anything else, and for an integer that JSON.parse has rounded. */
function digitsOf(value: unknown): string | undefined {
  if (JSON.isRawJSON(value)) return /[.eE]/.test(value.rawJSON) ? undefined : value.rawJSON
  return Number.isSafeInteger(value) ? String(value) : undefined
}

/** The session id of the message: `context.sessionId`, or the one that the Amplitude plug-in adds. */
function takeSession(
  context: Map<string, unknown>,
  integrations: unknown,
  names: Map<string, string>,
): string | undefined {
  const own = sessionOf(context.get('sessionId'))
  if (own !== undefined) {
    context.delete('sessionId')
    names.set('session_id', 'context.sessionId')
    return own
  }
  const amplitude = isJsonObject(integrations) ? integrations['Actions Amplitude'] : undefined
  names.set('session_id', 'integrations.Actions Amplitude.session_id')
  return isJsonObject(amplitude) ? sessionOf(amplitude.session_id) : undefined
}

/** A session id. A negative number, e.g. Amplitude's -1, means that there is none. */
function sessionOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value
  const digits = digitsOf(value)
  return digits === undefined || digits.startsWith('-') ? undefined : digits
}

/** The event's properties, and the names that its fields have in the message. */
interface Stored {
  properties: Map<string, unknown>
  names: Map<string, string>
  /** The names of the properties. */
  taken: PropertyNames
}

interface Places extends Pick<Stored, 'properties' | 'names'> {
  page: Map<string, unknown>
}

/** Takes `url` or `referrer` of the page: in a page call from the properties, otherwise from `context.page`. */
function takeAddress(
  name: 'url' | 'referrer',
  type: MessageType,
  { properties, page, names }: Places,
): string | undefined {
  const own = type === 'page' ? takeText(properties, name) : undefined
  if (own !== undefined) {
    // Equal values are stored once.
    if (page.get(name) === own || page.get(name) === '') page.delete(name)
    names.set(name, `properties.${name}`)
    return own
  }
  names.set(name, `context.page.${name}`)
  return takeText(page, name)
}

/** Drops the members of `context.traits` that equal a trait of the message: analytics-android repeats all of them. */
function dropRepeatedTraits(context: Map<string, unknown>, traits: ReadonlyMap<string, unknown>): void {
  const repeated = takeMembers(context, 'traits')
  for (const [name, value] of repeated) {
    if (traits.has(name) && isSameJson(traits.get(name), value)) repeated.delete(name)
  }
  if (repeated.size > 0) context.set('traits', Object.fromEntries(repeated))
}

function isSameJson(a: unknown, b: unknown): boolean {
  try {
    return JSON.stringify(a) === JSON.stringify(b)
  } catch {
    // Thousands of levels exceed the stack. The validation of the event refuses them.
    return false
  }
}

/** Moves `context.page.title` to the property `title`, and drops members of `context.page` that equal a property. */
function moveTitle(page: Map<string, unknown>, stored: Stored): void {
  const { properties } = stored
  for (const [name, value] of page) {
    if (properties.has(name) && properties.get(name) === value) page.delete(name)
  }
  moveText({ from: page, name: 'title', to: 'title', path: 'context.page.title' }, stored)
}

function moveCampaign(context: Map<string, unknown>, stored: Stored): void {
  const campaign = takeMembers(context, 'campaign')
  for (const [name, to] of utmNames) {
    moveText({ from: campaign, name, to, path: `context.campaign.${name}` }, stored)
  }
  if (campaign.size > 0) context.set('campaign', Object.fromEntries(campaign))
}

function moveText(
  { from, name, to, path }: { from: Map<string, unknown>; name: string; to: string; path: string },
  { properties, names, taken }: Stored,
): void {
  if (taken.isTaken(to)) return
  const text = takeText(from, name)
  if (text === undefined) return
  properties.set(to, text)
  taken.add(to)
  names.set(`properties.${to}`, path)
}

/**
 * Stores the other fields of the message as properties of the same name. When a property has that name, or the name of
 * one of the field's members, the field is stored as `_message.<name>`, so that neither replaces the other.
 */
function keepRest(
  rest: ReadonlyMap<string, unknown>,
  event: Record<string, unknown>,
  { properties, names, taken }: Stored,
): void {
  const unknown: [string, unknown][] = []
  // A free name is searched for each field, so their number is limited to the number of properties of an event.
  if (rest.size > propertyLimits.keysMax) {
    throw invalidField('message', `must not have more than ${propertyLimits.keysMax} fields`)
  }
  for (const [name, value] of rest) {
    // A page call repeats its name and category among its properties.
    if (value === null || (properties.has(name) && properties.get(name) === value)) continue
    let kept = name
    // The prefix gets longer until the name is free, because a property may be called `_message` as well. It stops when
    // the name is too long for a property; the event is then refused.
    for (let prefix = '_message'; !isTooLong(kept) && taken.isTaken(kept); prefix = `_${prefix}`) {
      kept = `${prefix}.${name}`
    }
    taken.add(kept)
    // A field with the name of an event's field would be read as that field: it is stored as a property.
    if (knownFields.has(kept)) {
      properties.set(kept, value)
      names.set(`properties.${kept}`, name)
    } else {
      unknown.push([kept, value])
      if (kept !== name) names.set(kept, name)
    }
  }
  for (const [name, value] of unknown) {
    Object.defineProperty(event, name, { value, enumerable: true, configurable: true, writable: true })
  }
}

const isTooLong = (name: string): boolean => hasMoreCodePoints(name, propertyLimits.keyLengthMax)

/** Removes a string from a map; undefined if it is empty, or if the value is no string, which then stays in the map. */
function takeText(from: Map<string, unknown>, name: string): string | undefined {
  const value = from.get(name)
  if (typeof value !== 'string') return undefined
  from.delete(name)
  return value === '' ? undefined : value
}

/**
 * Removes an object from a map and returns its members; none if the value is no object, which then stays in the map.
 */
function takeMembers(from: Map<string, unknown>, name: string): Map<string, unknown> {
  const value = from.get(name)
  if (!isJsonObject(value)) return new Map()
  from.delete(name)
  return new Map(Object.entries(value))
}

function takeObject(from: Map<string, unknown>, name: string): JsonObject {
  const value = from.get(name)
  from.delete(name)
  return objectOf(value, name)
}

function objectOf(value: unknown, name: string): JsonObject {
  if (value === undefined || value === null || value === '') return {}
  if (!isJsonObject(value)) throw invalidField(name, 'must be an object')
  return value
}

/** The error with the message's name of the field; the same error when the name is the same. */
function rename(error: AppError, names: ReadonlyMap<string, string>, payloadField: string): AppError {
  const { field } = error
  if (field === undefined) return error
  const name =
    nameInMessage(field, names) ??
    (field.startsWith('properties.') ? `${payloadField}${field.slice('properties'.length)}` : undefined)
  if (name === undefined) return error
  return new AppError(error.code, { message: error.message.replace(`: ${field}`, () => `: ${name}`), field: name })
}

/**
 * The name that a field of the event, or the object that holds it, has in the message; undefined if the names are
 * equal.
 */
function nameInMessage(field: string, names: ReadonlyMap<string, string>): string | undefined {
  for (let end = field.length; end > 0; end = field.lastIndexOf('.', end - 1)) {
    const name = names.get(field.slice(0, end))
    if (name !== undefined) return name + field.slice(end)
  }
  return undefined
}
