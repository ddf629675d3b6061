import { propertyLimits } from '@sluice/contracts/event-limits'
import { isJsonObject } from '@sluice/runtime/json-object'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { Failure } from '../failure.ts'
import {
  type Conversion,
  type Converter,
  countryOf,
  deviceOf,
  RecordError,
  requiredText,
  requiredTime,
  type SourceRecord,
  textOf,
} from './converted-event.ts'

/** PostHog's own properties that are worth keeping; its others describe its libraries, flags and people. */
const ownProperties: Readonly<Record<string, string>> = {
  $browser: 'browser',
  $browser_version: 'browser_version',
  $os: 'os',
  $os_version: 'os_version',
  $browser_language: 'language',
  $geoip_city_name: 'city',
  $geoip_subdivision_1_name: 'region',
  $lib: 'library',
  $el_text: 'element_text',
  $event_type: 'interaction',
  $app_version: 'app_version',
  $screen_name: 'screen_name',
  $groups: 'groups',
  $exception_type: 'exception_type',
  $exception_message: 'exception_message',
}

/** Properties of surveys, which keep their names without the `$`. */
const surveyPrefix = '$survey_'

/** Part of the transport, not of the event, and the texts of a survey, which may be longer than a property. */
const ignoredProperties = ['token', 'distinct_id', '$survey_questions']

/** A Map, because an event may have the name of a member of every object, such as `constructor`. */
const eventNames: ReadonlyMap<string, string> = new Map([
  ['$pageview', 'page_view'],
  ['$screen', 'screen_view'],
  ['$identify', 'identify'],
])

/**
 * Events that PostHog's clients send by themselves, for its recordings, flags, heat maps and records of people: nobody
 * did anything that counts. Kept, they would add a second event to every session, so that none were a bounce.
 */
const machineEvents: ReadonlySet<string> = new Set([
  '$pageleave',
  '$web_vitals',
  '$performance_event',
  '$snapshot',
  '$$heatmap',
  '$heatmaps_data',
  '$feature_flag_called',
  '$set',
  '$unset',
  '$create_alias',
  '$merge_dangerously',
  // Its distinct_id names the group, which would count as a user.
  '$groupidentify',
])

/** PostHog: events as JSON Lines, from a batch or file download export, or the CSV of an SQL query. */
export const posthog: Converter = {
  choose: (fields) => {
    if (['event', 'distinct_id', 'timestamp', 'properties'].every((name) => fields.includes(name))) return eventOf
    throw new Failure(
      'The file is not an export of PostHog: give events as JSON Lines or CSV, with event, distinct_id, timestamp and properties.',
    )
  },
}

function eventOf(record: SourceRecord): Conversion {
  const event = requiredText(record, 'event')
  if (machineEvents.has(event)) return undefined
  const properties = propertiesOf(record)
  const text = (name: string): string | undefined => textOf(properties, name)
  const distinctId = requiredText(record, 'distinct_id')
  const deviceId = text('$device_id')
  // After `posthog.reset()`, a visitor has a new distinct_id beside the old device.
  const isAnonymous =
    distinctId === deviceId || properties.$process_person_profile === false || properties.$is_identified === false
  const referrer = text('$referrer')
  return {
    event_type: eventNames.get(event) ?? event,
    timestamp_ms: requiredTime(record, 'timestamp'),
    event_id: textOf(record, 'uuid') ?? textOf(record, 'id'),
    user_id: isAnonymous ? undefined : distinctId,
    anonymous_id: isAnonymous ? distinctId : deviceId,
    session_id: text('$session_id'),
    url: text('$current_url'),
    referrer: referrer === '$direct' ? undefined : referrer,
    country: countryOf(text('$geoip_country_code')),
    device_type: deviceOf(text('$device_type')),
    properties: keptOf(event, properties),
  }
}

/** An object in JSON Lines, its JSON text in CSV. */
function propertiesOf(record: SourceRecord): SourceRecord {
  const value = record.properties
  if (typeof value !== 'string') return isJsonObject(value) ? value : {}
  if (value === '') return {}
  try {
    const parsed = parseExactly(value)
    if (isJsonObject(parsed)) return parsed
  } catch {
    // Reported below.
  }
  throw new RecordError('properties is not a JSON object')
}

/**
 * The properties to keep. Those of the event's author win over those of the person, and both over PostHog's of the same
 * name. Only the author's may be too long or too many, which fails the record.
 */
function keptOf(event: string, properties: SourceRecord): Record<string, unknown> {
  const own = new Map<string, unknown>()
  const others = new Map<string, unknown>()
  for (const [name, value] of Object.entries({ ...properties, ...exceptionOf(properties) })) {
    if (ignoredProperties.includes(name)) continue
    if (name.startsWith('$')) {
      const kept = newNameOf(event, name)
      if (kept !== undefined) others.set(kept, fitting(value))
    } else own.set(name, value)
  }
  const people = event === '$identify' && isJsonObject(properties.$set) ? properties.$set : {}
  for (const [name, value] of Object.entries(people)) {
    const isTooMuch = name.length > propertyLimits.keyLengthMax || own.size + others.size >= propertyLimits.keysMax
    if (!name.startsWith('$') && !isTooMuch) others.set(name, fitting(value))
  }
  return Object.fromEntries([...others, ...own])
}

/** Type and message of an exception, of which later versions of PostHog have lists, one for each cause. */
function exceptionOf(properties: SourceRecord): SourceRecord {
  const of = (name: string, list: unknown): unknown =>
    textOf(properties, name) ?? (Array.isArray(list) ? (list as unknown[])[0] : undefined)
  return {
    $exception_type: of('$exception_type', properties.$exception_types),
    $exception_message: of('$exception_message', properties.$exception_values),
  }
}

/** The name under which one of PostHog's own properties is kept; undefined for others. */
function newNameOf(event: string, name: string): string | undefined {
  // As the screens of Segment's clients.
  if (name === '$screen_name' && event === '$screen') return 'name'
  return name.startsWith(surveyPrefix) ? name.slice(1) : ownProperties[name]
}

/** A value cut to the longest text of a property: the message of an exception, for example, would fail its record. */
function fitting(value: unknown): unknown {
  const max = propertyLimits.stringLengthMax
  return typeof value === 'string' && value.length > max ? Array.from(value).slice(0, max).join('') : value
}
