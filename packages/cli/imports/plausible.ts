import { hourMs } from '@sluice/contracts/time-units'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { Failure } from '../failure.ts'
import {
  type Conversion,
  type Converter,
  countryOf,
  deviceOf,
  propertiesOf,
  RecordError,
  requiredText,
  requiredTime,
  type SourceRecord,
  textOf,
  withScheme,
} from './converted-event.ts'

const eventProperties = {
  referrer_source: 'source',
  utm_source: 'utm_source',
  utm_medium: 'utm_medium',
  utm_campaign: 'utm_campaign',
  utm_content: 'utm_content',
  utm_term: 'utm_term',
  browser: 'browser',
  browser_version: 'browser_version',
  operating_system: 'os',
  operating_system_version: 'os_version',
  subdivision1_code: 'region',
}

/** Plausible sends one whenever a visitor scrolls or leaves; nobody did anything that counts. */
const engagement = 'engagement'

/** 10:00 UTC lies within the same date from Hawaii (−10:00) to the Chatham Islands in summer (+13:45). */
const timeOfTotalsMs = 10 * hourMs

/**
 * Plausible. Either the table `events_v2` of a self-hosted installation as CSV, which holds the events themselves, or
 * the files of pages and custom events that its settings export, which hold daily totals.
 */
export const plausible: Converter = {
  choose: (fields) => {
    const has = (...names: string[]): boolean => names.every((name) => fields.includes(name))
    if (has('name', 'timestamp', 'pathname', 'user_id')) return eventOf
    if (has('date', 'page', 'pageviews')) return pageTotalOf
    if (has('date', 'name', 'events')) return customEventTotalOf
    if (has('date', 'visitors')) {
      throw new Failure(
        'This file of the Plausible export holds totals that are not events: import imported_pages_… and imported_custom_events_… instead.',
      )
    }
    throw new Failure(
      'The file is not an export of Plausible: give imported_pages_….csv, imported_custom_events_….csv, or events_v2 as CSVWithNames.',
    )
  },
}

function eventOf(record: SourceRecord): Conversion {
  const name = requiredText(record, 'name')
  if (name === engagement) return undefined
  const hostname = textOf(record, 'hostname')
  const path = textOf(record, 'pathname')
  return {
    event_type: name === 'pageview' ? 'page_view' : name,
    timestamp_ms: requiredTime(record, 'timestamp'),
    anonymous_id: textOf(record, 'user_id'),
    session_id: textOf(record, 'session_id'),
    url: hostname === undefined ? path : withScheme(hostname + (path ?? '')),
    referrer: withScheme(textOf(record, 'referrer')),
    country: countryOf(textOf(record, 'country_code')),
    device_type: deviceOf(textOf(record, 'screen_size')),
    properties: { ...propertiesOf(record, eventProperties), ...revenueOf(record), ...metaOf(record) },
  }
}

/** The amount is a number. Without one, the column of the currency holds three NUL. */
function revenueOf(record: SourceRecord): Record<string, unknown> {
  const amount = textOf(record, 'revenue_source_amount')
  if (amount === undefined) return {}
  try {
    return {
      'revenue.amount': parseExactly(amount),
      'revenue.currency': textOf(record, 'revenue_source_currency'),
    }
  } catch {
    throw new RecordError('revenue_source_amount is not a number')
  }
}

/** Custom properties, which ClickHouse writes as two lists: in CSV as a text, `['plan','total']`, in JSON as arrays. */
function metaOf(record: SourceRecord): Record<string, string> {
  const keys = listIn(record, 'meta.key')
  const values = listIn(record, 'meta.value')
  if (keys.length !== values.length) throw new RecordError('meta.key and meta.value differ in length')
  return Object.fromEntries(keys.map((key, at) => [key, values[at] ?? '']))
}

function listIn(record: SourceRecord, name: string): string[] {
  const value = record[name]
  return Array.isArray(value) ? value.map(String) : listOf(textOf(record, name) ?? '[]')
}

function listOf(text: string): string[] {
  if (!/^\[.*\]$/s.test(text)) throw new RecordError('meta.key or meta.value is not a list')
  return [...text.matchAll(/'((?:[^'\\]|\\.|'')*)'/gs)].map(([, item = '']) =>
    item.replaceAll("''", "'").replaceAll(/\\(.)/gs, (_all, character: string) => {
      switch (character) {
        case 'n':
          return '\n'
        case 't':
          return '\t'
        case 'r':
          return '\r'
        default:
          return character
      }
    }),
  )
}

function pageTotalOf(record: SourceRecord): Conversion {
  const hostname = textOf(record, 'hostname')
  const page = requiredText(record, 'page')
  return {
    event: {
      event_type: 'page_view',
      timestamp_ms: timeOfTotal(record),
      url: hostname === undefined ? page : withScheme(hostname + page),
    },
    count: requiredCount(record, 'pageviews'),
  }
}

function customEventTotalOf(record: SourceRecord): Conversion {
  const name = requiredText(record, 'name')
  const count = requiredCount(record, 'events')
  if (name === engagement) return undefined
  return {
    event: {
      event_type: name,
      timestamp_ms: timeOfTotal(record),
      properties: propertiesOf(record, { link_url: 'link_url', path: 'path' }),
    },
    count,
  }
}

/** The time of the events of a daily total. */
function timeOfTotal(record: SourceRecord): number {
  return requiredTime(record, 'date') + timeOfTotalsMs
}

function requiredCount(record: SourceRecord, name: string): number {
  const count = Number(requiredText(record, name))
  if (!Number.isSafeInteger(count) || count < 0) throw new RecordError(`${name} is not a count`)
  return count
}
