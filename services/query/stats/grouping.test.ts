import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import {
  hour,
  noon,
  openStatsDatabase,
  type StatsDatabase,
  type StoredEvent,
} from '../../../tests/support/stats-database.ts'

let database: StatsDatabase
let queryStats: StatsDatabase['queryStats']
let siteWith: StatsDatabase['siteWith']

beforeAll(async () => {
  database = await openStatsDatabase()
  ;({ queryStats, siteWith } = database)
})

afterAll(async () => {
  await database.drop()
})

/**
 * Returns the keys and values of a breakdown, and checks that each entry has a field with the name of the dimension.
 */
async function groups(events: readonly StoredEvent[], dimension: string, metric = 'event_count') {
  const { breakdown = [] } = await queryStats({ site_id: await siteWith(events), metric, group_by: dimension })
  return breakdown.map(({ timestamp, key, value, ...named }) => {
    expect(timestamp).toBe(noon)
    expect(named).toStrictEqual({ [dimension]: key })
    return [key, value]
  })
}

describe('a grouping by value', () => {
  test('uses event_type and url as they were sent', async () => {
    const events = [
      { at: 0, event_type: 'Click', url: 'https://a.example/x?y#z' },
      { at: 0, event_type: 'click', url: 'https://a.example/x?y#z' },
    ]
    expect(await groups(events, 'event_type')).toStrictEqual([
      ['Click', 1],
      ['click', 1],
    ])
    expect(await groups(events, 'url')).toStrictEqual([['https://a.example/x?y#z', 2]])
  })

  test('keeps the percent-encoding of paths without query and fragment, and has an empty path for none', async () => {
    const events = ['https://a.example/b%20c?x', 'http://b.example:80/b%20c#y', '/b%20c', 'https://a.example', ''].map(
      (url) => ({ at: 0, url }),
    )
    expect(await groups(events, 'path')).toStrictEqual([
      ['/b%20c', 3],
      ['', 2],
    ])
  })

  test('has referrer_host in lower case and without port', async () => {
    const events = ['https://Search.Example:8443/x', 'http://search.example', 'android-app://a.b/', ''].map(
      (referrer) => ({ at: 0, referrer }),
    )
    expect(await groups(events, 'referrer_host')).toStrictEqual([
      ['search.example', 2],
      ['', 1],
      ['a.b', 1],
    ])
  })

  test('uses the flattened names of properties, with one group for absent and empty values', async () => {
    const events = [{ 'a.b': '1' }, { 'a.b': '1' }, { 'a.b': '' }, { b: '1' }, {}].map((properties) => ({
      at: 0,
      properties: properties,
    }))
    expect(await groups(events, 'properties.a.b')).toStrictEqual([
      ['', 3],
      ['1', 2],
    ])
  })

  test('puts a session into the group of its first event', async () => {
    const events = [
      { at: 0, session_id: 's', url: '/in', properties: { plan: 'free' } },
      { at: 1, session_id: 's', url: '/out', properties: { plan: 'pro' } },
    ]
    expect(await groups(events, 'path', 'avg_session_duration')).toStrictEqual([['/in', 3600]])
    expect(await groups(events, 'properties.plan', 'bounce_rate')).toStrictEqual([['free', 0]])
  })

  test('accepts any characters in names of properties', async () => {
    const strange = `') OR 1=1 -- \\ {site_id:String} "`
    expect(await groups([{ at: 0, properties: { [strange]: 'x' } }], `properties.${strange}`)).toStrictEqual([['x', 1]])
  })
})

test('groups of equal value are listed in the order of their keys', async () => {
  const keys = Array.from({ length: 500 }, (_, index) => `k${index}`)
  const site_id = await siteWith(keys.map((url) => ({ at: 0, url, event_type: url })))
  const first = [...keys].sort().slice(0, 3)
  const { breakdown } = await queryStats({ site_id, metric: 'event_count', group_by: 'url', limit: 3 })
  expect(breakdown?.map(({ key, value }) => [key, value])).toStrictEqual([
    ...first.map((key) => [key, 1]),
    ['(other)', 497],
  ])
  const types = await queryStats({ site_id, metric: 'event_count_by_type', limit: 3 })
  expect(types.breakdown?.map(({ key }) => key)).toStrictEqual([...first, '(other)'])
})

describe('event_count_by_type', () => {
  const events: StoredEvent[] = [
    { at: 0, event_type: 'click', url: '/a' },
    { at: 0, event_type: 'click', url: '/b' },
    { at: 1, event_type: 'click', url: '/b' },
    { at: 1, event_type: 'view', url: '/a' },
    { at: 1, event_type: 'quit', url: '/a' },
  ]

  test('is split by the grouping, and the limit counts types', async () => {
    const site_id = await siteWith(events)
    const parameters = { site_id, metric: 'event_count_by_type', group_by: 'path', limit: 1 }
    expect((await queryStats(parameters)).breakdown).toStrictEqual([
      { timestamp: noon, key: 'click', path: '/b', event_type: 'click', value: 2 },
      { timestamp: noon, key: 'click', path: '/a', event_type: 'click', value: 1 },
      { timestamp: noon, key: '(other)', path: '/a', event_type: '(other)', value: 2 },
    ])
  })

  test('is the same when grouped by type as without grouping', async () => {
    const site_id = await siteWith(events)
    const metric = 'event_count_by_type'
    const plain = await queryStats({ site_id, metric })
    expect(plain.breakdown).toHaveLength(3)
    expect((await queryStats({ site_id, metric, group_by: 'event_type' })).breakdown).toStrictEqual(plain.breakdown)
  })
})

describe('visitors', () => {
  test('are users, else anonymous ids, else sessions; ids of different kinds never match', async () => {
    const site_id = await siteWith([
      { at: 0, user_id: 'x', anonymous_id: 'y', session_id: 'z' },
      { at: 0, user_id: 'x', anonymous_id: 'other' },
      { at: 1, anonymous_id: 'x' },
      { at: 1, session_id: 'x' },
      { at: 1 },
    ])
    const { value, breakdown } = await queryStats({ site_id, metric: 'visitors', group_by: 'hour' })
    expect(value).toBe(3)
    expect(breakdown?.map((entry) => entry.value)).toStrictEqual([1, 2])
  })
})

describe('buckets in a time zone', () => {
  const starts = async (parameters: Record<string, string | number>, timezone?: string) => {
    const site_id = await siteWith([{ at: 0 }])
    const { breakdown, timezone: usedTimezone } = await queryStats(
      { site_id, metric: 'event_count', ...parameters },
      {},
      { timezone },
    )
    return { timezone: usedTimezone, starts: breakdown?.map(({ timestamp }) => new Date(timestamp).toISOString()) }
  }

  test('begin at midnight of the site’s zone by default', async () => {
    const parameters = { group_by: 'day', end_date: noon + 1 }
    expect(await starts(parameters)).toStrictEqual({ timezone: 'UTC', starts: ['2024-05-15T00:00:00.000Z'] })
    expect(await starts(parameters, 'Asia/Kathmandu')).toStrictEqual({
      timezone: 'Asia/Kathmandu',
      starts: ['2024-05-14T18:15:00.000Z'],
    })
    expect(await starts({ ...parameters, timezone: 'europe/berlin' }, 'Asia/Kathmandu')).toStrictEqual({
      timezone: 'Europe/Berlin',
      starts: ['2024-05-14T22:00:00.000Z'],
    })
  })

  test('begin on Monday for weeks and on the first for months', async () => {
    const parameters = { timezone: 'America/New_York', start_date: noon, end_date: noon + 5 * 24 * hour }
    expect((await starts({ ...parameters, group_by: 'week' })).starts).toStrictEqual([
      '2024-05-13T04:00:00.000Z',
      '2024-05-20T04:00:00.000Z',
    ])
    expect((await starts({ ...parameters, group_by: 'month' })).starts).toStrictEqual(['2024-05-01T04:00:00.000Z'])
  })

  test('are two for an hour that occurs twice, and each event is in its own one', async () => {
    const start_date = Date.UTC(2024, 9, 27, 0)
    const site_id = await siteWith([{ at: 0, timestamp: start_date + 1.5 * hour }])
    const parameters = { site_id, metric: 'event_count', group_by: 'hour', start_date, end_date: start_date + 3 * hour }
    const { breakdown } = await queryStats({ ...parameters, timezone: 'Europe/Berlin' })
    // The buckets begin at 02:00 in summer time, 02:00 in winter time, and 03:00.
    expect(breakdown).toStrictEqual([
      { timestamp: start_date, value: 0 },
      { timestamp: start_date + hour, value: 1 },
      { timestamp: start_date + 2 * hour, value: 0 },
    ])
  })

  test('have the events of the 25th hour of a day, also when that day is the last one', async () => {
    // Midnight in Berlin, in summer time on these two days and in winter time after them.
    const starts = [Date.UTC(2024, 9, 25, 22), Date.UTC(2024, 9, 26, 22)]
    const end_date = Date.UTC(2024, 9, 27, 23)
    const site_id = await siteWith([{ at: 0, timestamp: end_date - hour / 2 }])
    const range = { start_date: starts[0] ?? 0, end_date, group_by: 'day', timezone: 'Europe/Berlin' }
    const { breakdown } = await queryStats({ site_id, metric: 'event_count', ...range })
    expect(breakdown).toStrictEqual([
      { timestamp: starts[0], value: 0 },
      { timestamp: starts[1], value: 1 },
    ])
  })

  test('do not exist for a skipped day', async () => {
    const range = { start_date: Date.UTC(2011, 11, 29, 10), end_date: Date.UTC(2011, 11, 31, 10) }
    expect((await starts({ ...range, group_by: 'day', timezone: 'Pacific/Apia' })).starts).toStrictEqual([
      '2011-12-29T10:00:00.000Z',
      '2011-12-30T10:00:00.000Z',
    ])
  })

  test('can be 5,000 of different lengths', async () => {
    const start_date = Date.UTC(2020, 0, 1)
    const site_id = await siteWith([{ at: 0, timestamp: start_date + 4_999.5 * hour }])
    const end_date = start_date + 5_000 * hour
    const parameters = {
      site_id,
      metric: 'event_count',
      group_by: 'hour',
      start_date,
      end_date,
      timezone: 'Australia/Lord_Howe',
    }
    await expect(queryStats(parameters)).rejects.toMatchObject({ code: 'invalid_field' })
    const { breakdown } = await queryStats({ ...parameters, start_date: start_date + 2 * hour })
    expect(breakdown?.at(-1)).toStrictEqual({ timestamp: start_date + 4_999.5 * hour, value: 1 })
  })
})
