import { Failure } from '../failure.ts'
import {
  type Conversion,
  type Converter,
  countryOf,
  deviceOf,
  propertiesOf,
  requiredText,
  requiredTime,
  type SourceRecord,
  textOf,
  withScheme,
} from './converted-event.ts'

const properties = {
  page_title: 'title',
  browser: 'browser',
  os: 'os',
  screen: 'screen',
  language: 'language',
  subdivision1: 'region',
  region: 'region',
  city: 'city',
  tag: 'tag',
  utm_source: 'utm_source',
  utm_medium: 'utm_medium',
  utm_campaign: 'utm_campaign',
  utm_content: 'utm_content',
  utm_term: 'utm_term',
}

/** Umami: `website_event` as CSV, from the export of Umami Cloud or from the database. */
export const umami: Converter = {
  choose: (fields) => {
    const required = ['created_at', 'url_path', 'session_id']
    if (required.every((name) => fields.includes(name))) return eventOf
    throw new Failure(
      'The file is not an export of Umami: give website_event as CSV, with created_at, url_path and session_id.',
    )
  },
}

/** Umami's type of samples of Web Vitals, which have no name either; Umami does not count them. */
const performanceType = '5'

function eventOf(record: SourceRecord): Conversion {
  if (textOf(record, 'event_type') === performanceType) return undefined
  const hostname = textOf(record, 'hostname')
  const path = joined(textOf(record, 'url_path'), textOf(record, 'url_query'))
  const referrer = textOf(record, 'referrer_domain')
  const referrerPath = joined(textOf(record, 'referrer_path'), textOf(record, 'referrer_query')) ?? ''
  return {
    // A page view has no name: 1 is the type of page views, 2 that of named events.
    event_type: textOf(record, 'event_name') ?? 'page_view',
    timestamp_ms: requiredTime(record, 'created_at'),
    event_id: textOf(record, 'event_id'),
    // What Umami calls a session is a visitor of a month; a visit is what others call a session.
    anonymous_id: requiredText(record, 'session_id'),
    session_id: textOf(record, 'visit_id') ?? requiredText(record, 'session_id'),
    user_id: textOf(record, 'distinct_id'),
    url: hostname === undefined ? path : withScheme(hostname + (path ?? '')),
    referrer: referrer === undefined ? undefined : withScheme(referrer + referrerPath),
    country: countryOf(textOf(record, 'country')),
    device_type: deviceOf(textOf(record, 'device')),
    properties: propertiesOf(record, properties),
  }
}

/** The path may have a fragment. The query goes before it. */
function joined(path = '', query?: string): string | undefined {
  if (query === undefined) return path || undefined
  const [, beforeHash = '', hash = ''] = /^([^#]*)(.*)$/s.exec(path) ?? []
  return `${beforeHash}${query.startsWith('?') ? '' : '?'}${query}${hash}`
}
