import { describe, expect, test } from '@jest/globals'
import type { SiteDefaults } from '@sluice/access/sites'
import { statusOf } from '@sluice/api/error-status'
import { statsQuery } from '@sluice/api/stats'
import type { Environment } from '@sluice/contracts/scopes'
import { planStats, type StatsPlan } from '@sluice/event-store/stats/spec'
import { AppError } from '@sluice/runtime/errors'
import { validate } from '@sluice/runtime/validate'
import { toFieldError } from '../run-analysis.ts'
import { rangeOf, type RequestedStats, statsSpecOf } from './read-stats-request.ts'
import { statsTooLarge } from './stats.ts'

const hour = 3_600_000
const now = Date.UTC(2024, 4, 1, 12, 30)
const least = { site_id: 'site', metric: 'event_count' }

const site = { timezone: 'UTC', conversion_event: null }

type Query = Record<string, unknown>

/** The spec of a raw query, as the operation validates and reads it. */
function specOf(query: Query, settings: SiteDefaults = site, environment: Environment = 'prod'): RequestedStats {
  const parameters = validate(statsQuery, query)
  return statsSpecOf(parameters, rangeOf(parameters, now), settings, environment)
}

function read(query: Query): StatsPlan {
  return planStats(specOf({ ...least, ...query }))
}

function problem(query: Query): string {
  try {
    planStats(specOf(query))
  } catch (thrown) {
    const error = toFieldError(thrown, { tooLarge: statsTooLarge })
    if (!(error instanceof AppError)) throw error
    expect(statusOf[error.code]).toBe(400)
    return error.message
  }
  return 'no problem'
}

describe('range', () => {
  test('is the last 24 hours by default', () => {
    expect(read({})).toMatchObject({ start: now - 24 * hour, end: now })
  })

  test.each([
    ['1h', hour],
    ['24h', 24 * hour],
    ['7d', 7 * 24 * hour],
    ['30d', 30 * 24 * hour],
  ])('period=%s is exactly that many hours until now', (period, length) => {
    expect(read({ period })).toMatchObject({ start: now - length, end: now })
  })

  test('uses explicit dates instead of a period', () => {
    expect(read({ period: '7d', start_date: '5', end_date: '9' })).toMatchObject({ start: 5, end: 9 })
  })

  test('ends now with start_date alone', () => {
    expect(read({ start_date: String(now - 1), period: '7d' })).toMatchObject({ start: now - 1, end: now })
  })

  test('is the period or 24 hours before end_date alone', () => {
    const end = now - 100 * hour
    expect(read({ end_date: String(end) })).toMatchObject({ start: end - 24 * hour, end })
    expect(read({ end_date: String(end), period: '1h' })).toMatchObject({ start: end - hour, end })
  })
})

test('country and device_type are accepted in upper and lower case', () => {
  expect(read({ country: 'dE', device_type: 'DeskTop' }).filters).toStrictEqual({
    country: 'DE',
    device_type: 'desktop',
  })
})

test('empty parameters are absent', () => {
  expect(read({ country: '', group_by: '', start_date: '', limit: '' })).toStrictEqual(read({}))
})

test('the environment is that of the credential unless the request names one', () => {
  const ofDev = (query: Query) => specOf({ ...least, ...query }, site, 'dev')
  expect(ofDev({}).environment).toBe('dev')
  for (const environment of ['prod', 'dev', 'all']) expect(ofDev({ environment }).environment).toBe(environment)
})

test('the target of conversion_rate is purchase unless the request names one', () => {
  expect(read({}).targetEvent).toBe('purchase')
  expect(read({ target_event: 'sign up' }).targetEvent).toBe('sign up')
})

test('the site’s settings are the defaults of a request', () => {
  const settings = { timezone: 'Asia/Kathmandu', conversion_event: 'signup' }
  const { timeZone, targetEvent } = specOf(least, settings)
  expect({ timeZone, targetEvent }).toStrictEqual({ timeZone: 'Asia/Kathmandu', targetEvent: 'signup' })
  expect(specOf({ ...least, timezone: 'utc', target_event: 'x' }, settings)).toMatchObject({
    timeZone: 'UTC',
    targetEvent: 'x',
  })
})

test.each([
  ['Asia/Kolkata', 'Asia/Kolkata'],
  ['EUROPE/KYIV', 'Europe/Kyiv'],
  ['est', 'EST'],
])('the time zone %s is returned as %s', (timezone, name) => {
  expect(read({ timezone }).timeZone).toBe(name)
})

test('conditions are parsed from JSON text', () => {
  const filter = [{ property: 'country', operator: 'equals', value: 'DE' }]
  expect(read({ filter: JSON.stringify(filter) }).conditions).toStrictEqual(filter)
  expect(read({ filter: '[]' }).conditions).toStrictEqual([])
  expect(read({ filter: '' }).conditions).toStrictEqual([])
})

describe('a request without a required parameter is refused with its name', () => {
  test.each([
    [{}, 'site_id'],
    [{ metric: 'event_count' }, 'site_id'],
    [{ site_id: '', metric: 'event_count' }, 'site_id'],
    [{ site_id: 'site' }, 'metric'],
    [{ site_id: 'site', metric: '' }, 'metric'],
  ])('%j', (query, name) => {
    expect(problem(query)).toBe(`Missing required field: ${name}`)
  })
})

const dates = 'must be an integer from 0 to 7258118400000 (Unix milliseconds)'
const seconds = 'must be Unix time in milliseconds, not in seconds'

describe('a wrong value is refused with what is allowed', () => {
  test.each<[Query, string]>([
    [{ site_id: 'x'.repeat(65) }, 'site_id exceeds maximum length of 64'],
    [
      { metric: 'events' },
      'metric must be one of: event_count, unique_users, unique_sessions, avg_session_duration, event_count_by_type, bounce_rate, conversion_rate, visitors',
    ],
    [{ metric: 'constructor' }, expect.stringMatching(/^metric must be one of/) as unknown as string],
    ...['1.5', '-1', '1e3', '0x10', ' 1', 'yesterday', '2024-01-01', 'NaN', '7258118400001', '9'.repeat(30)].map(
      (date): [Query, string] => [{ start_date: date }, `start_date ${dates}`],
    ),
    [{ end_date: 'now' }, `end_date ${dates}`],
    [{ start_date: '1431820800' }, `start_date ${seconds}`],
    [{ end_date: '1431907200' }, `end_date ${seconds}`],
    [{ period: '2h' }, 'period must be one of: 1h, 24h, 7d, 30d'],
    [{ period: '24H' }, 'period must be one of: 1h, 24h, 7d, 30d'],
    [
      { group_by: 'year' },
      'group_by must be one of: minute, hour, day, week, month, device_type, country, event_type, url, path, referrer_host, properties.<name>',
    ],
    [{ country: 'DEU' }, 'country must be 2 letters or digits'],
    [{ country: 'ÄÖ' }, 'country must be 2 letters or digits'],
    [{ device_type: 'phone' }, 'device_type must be one of: desktop, mobile, tablet'],
    [{ group_by: 'properties.' }, 'group_by must name a property of 1 to 128 characters after properties.'],
    [
      { group_by: `properties.${'x'.repeat(129)}` },
      'group_by must name a property of 1 to 128 characters after properties.',
    ],
    [{ group_by: 'properties.a\0' }, 'group_by must not contain NUL characters'],
    ...['Mars/Phobos', '+02:00', 'Berlin', 'Europe/Berlin '].map((timezone): [Query, string] => [
      { timezone },
      'timezone must be an IANA time zone, e.g. Europe/Berlin',
    ]),
    [{ event_type: 'x'.repeat(65) }, 'event_type exceeds maximum length of 64'],
    [{ compare: 'last_year' }, 'compare must be one of: previous_period, previous_year'],
    [{ filter: 'country=DE' }, 'filter must be JSON: a list of conditions'],
    [{ filter: '{}' }, 'filter must be a list of conditions'],
    [
      { filter: '[{"property":"country","operator":"is","value":"DE"}]' },
      expect.stringMatching(/^filter\.0\.operator must be one of: equals, /) as unknown as string,
    ],
    [{ exact: 'yes' }, 'exact must be one of: true, false'],
    [{ target_event: 'x'.repeat(65) }, 'target_event exceeds maximum length of 64'],
    [{ environment: 'test' }, 'environment must be one of: prod, dev, all'],
    [{ limit: '0' }, 'limit must be an integer from 1 to 1000'],
    [{ limit: '1001' }, 'limit must be an integer from 1 to 1000'],
    [{ limit: 'ten' }, 'limit must be an integer from 1 to 1000'],
    [{ offset: '-1' }, 'offset must be an integer from 0 to 100000'],
    [{ start_date: '9', end_date: '9' }, 'start_date must be before end_date'],
    [{ start_date: '10', end_date: '9' }, 'start_date must be before end_date'],
    [{ start_date: String(now) }, 'start_date must be before now'],
  ])('%j', (query, reason) => {
    expect(problem({ ...least, ...query }).replace('Invalid field: ', '')).toEqual(reason)
  })

  test.each(['site_id', 'metric', 'start_date', 'period', 'country', 'filter', 'limit'])('%s given twice', (name) => {
    expect(problem({ ...least, [name]: ['1', '1'] })).toBe(`Invalid field: ${name} must be given only once`)
  })

  test.each(['page', 'time_zone', 'Metric', '__proto__x', 'constructor'])(
    '%s is refused as unknown instead of being ignored',
    (name) => {
      expect(problem({ ...least, [name]: 'x' })).toBe(`Invalid field: ${name} is not a known parameter`)
    },
  )
})

test('only the first problem is reported, in the order of docs/http-interface.md#stats-parameters', () => {
  const query = { unknown: 'x', limit: '0', country: '?', period: '?', start_date: '?', metric: '?', site_id: '' }
  const expected = ['site_id', 'metric', 'start_date', 'period', 'country', 'limit', 'unknown']
  const good = { site_id: 's', metric: 'event_count', start_date: '1', period: '1h', country: 'DE', limit: '5' }
  let corrected: Query = query
  for (const name of expected) {
    expect(problem(corrected)).toContain(` ${name}`)
    corrected = { ...corrected, [name]: good[name as keyof typeof good] }
  }
})

describe('at most 5,000 buckets', () => {
  const start = now - 6000 * hour
  const from = start - (start % hour)

  test.each([
    ['minute', from + 1, from + 1 + 6 * hour, 'fits'],
    ['minute', from, from + 6 * hour + 1, 'refused'],
    ['hour', from, from + 5000 * hour, 'fits'],
    ['hour', from, from + 5000 * hour + 1, 'refused'],
    ['hour', from + 1, from + 5000 * hour, 'fits'],
    ['hour', from - 1, from + 5000 * hour, 'refused'],
    ['day', 0, 5000 * 24 * hour, 'fits'],
    ['day', 0, 5000 * 24 * hour + 1, 'refused'],
    ['country', 0, now, 'fits'],
  ])('group_by %s from %d to %d %s', (unit, startDate, endDate, outcome) => {
    const query = { ...least, group_by: unit, start_date: String(startDate), end_date: String(endDate) }
    expect(problem(query)).toMatch(
      outcome === 'fits' ? /^no problem$/ : /^Invalid field: group_by must make at most 5000/,
    )
  })
})
