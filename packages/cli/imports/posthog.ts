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
}

/** Part of the transport, not of the event. */
const ignoredProperties = ['token', 'distinct_id']

/** A Map, because an event may have the name of a member of every object, such as `constructor`. */
const eventNames: ReadonlyMap<string, string> = new Map([
  ['$pageview', 'page_view'],
  ['$screen', 'screen_view'],
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
  const isAnonymous = distinctId === deviceId || properties.$process_person_profile === false
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
    properties: keptOf(properties),
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

function keptOf(properties: SourceRecord): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, value]) => {
      if (name.startsWith('$')) return ownProperties[name] === undefined ? [] : [[ownProperties[name], value]]
      return ignoredProperties.includes(name) ? [] : [[name, value]]
    }),
  )
}
