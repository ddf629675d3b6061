import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { comparedRange } from '@sluice/event-store/stats/compared-range'
import { hour, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'

let database: StatsDatabase
let queryStats: StatsDatabase['queryStats']

beforeAll(async () => {
  database = await openStatsDatabase()
  ;({ queryStats } = database)
})

afterAll(async () => {
  await database.drop()
})

test.each(['event_count', 'event_count_by_type', 'unique_users', 'bounce_rate'])(
  'the comparison of %s equals the response for the compared range',
  async (metric) => {
    const site_id = await database.siteWith(
      [-366 * 24, -3.2, -2, -1, -0.5, 0, 0.5, 1.9, 2].map((at, index) => ({
        at,
        country: index % 2 === 0 ? 'DE' : 'FR',
        user_id: `u${index % 3}`,
        session_id: `s${index % 4}`,
      })),
    )
    for (const group_by of ['', 'hour', 'country']) {
      for (const compare of ['previous_period', 'previous_year']) {
        const parameters = { site_id, metric, group_by, limit: 1 }
        const { compare: compared } = await queryStats({ ...parameters, compare })
        const { start_date = 0, end_date = 0 } = compared ?? {}
        expect(end_date - start_date).toBe(2 * hour)
        const { value, breakdown } = await queryStats({ ...parameters, start_date, end_date })
        expect(compared).toStrictEqual({ start_date, end_date, value, ...(breakdown && { breakdown }) })
      }
    }
  },
)

test('a response to a request without compare has no comparison', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  expect(await queryStats({ site_id, metric: 'event_count' })).not.toHaveProperty('compare')
})

describe('previous_year', () => {
  const over = (start: string, end: string, zone = 'UTC') => {
    const range = comparedRange({ start: Date.parse(start), end: Date.parse(end) }, 'previous_year', zone)
    return [range.start, range.end].map((at) => new Date(at).toISOString().slice(0, 16))
  }

  test.each([
    ['dates are compared with the same dates', '2023-05-01', '2023-06-01', ['2022-05-01T00:00', '2022-06-01T00:00']],
    ['29 February is compared with the 28th', '2024-02-29', '2024-03-01', ['2023-02-28T00:00', '2023-03-01T00:00']],
    ['February is compared with February', '2024-02-01', '2024-03-01', ['2023-02-01T00:00', '2023-03-01T00:00']],
    [
      '1 to 28 February is compared with the same',
      '2024-02-01',
      '2024-02-29',
      ['2023-02-01T00:00', '2023-03-01T00:00'],
    ],
    ['February before one with 29 days', '2025-02-01', '2025-03-01', ['2024-02-01T00:00', '2024-02-29T00:00']],
    [
      'a range that would be empty keeps its length',
      '2024-02-28T12:00Z',
      '2024-02-29T12:00Z',
      ['2023-02-28T12:00', '2023-03-01T12:00'],
    ],
  ])('%s', (_, start, end, expected) => expect(over(start, end)).toStrictEqual(expected))

  test('uses the dates of the time zone', () => {
    // 1 April has summer time in Berlin in both years; the midnight of 31 March 2024 is still winter time.
    expect(over('2024-03-31T22:00Z', '2024-04-01T22:00Z', 'Europe/Berlin')).toStrictEqual([
      '2023-03-31T22:00',
      '2023-04-01T22:00',
    ])
    expect(over('2024-03-30T23:00Z', '2024-03-31T22:00Z', 'Europe/Berlin')).toStrictEqual([
      '2023-03-30T22:00',
      '2023-03-31T22:00',
    ])
  })

  test('of a day that begins at 01:00 begins with the date of the year before', () => {
    // Clocks went forward at midnight of 24 April 2026 in Cairo, and of 1 October 2023 in Asunción.
    expect(over('2026-04-23T22:00Z', '2026-04-24T21:00Z', 'Africa/Cairo')).toStrictEqual([
      '2025-04-23T22:00',
      '2025-04-24T22:00',
    ])
    expect(over('2023-10-01T04:00Z', '2023-11-01T03:00Z', 'America/Asuncion')).toStrictEqual([
      '2022-10-01T04:00',
      '2022-11-01T03:00',
    ])
  })
})

test('a comparison may go back by centuries', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  for (const metric of ['event_count', 'bounce_rate']) {
    const range = { start_date: 0, end_date: Date.UTC(2200, 0, 1) }
    const { compare } = await queryStats({ site_id, metric, ...range, compare: 'previous_period' })
    expect(compare).toMatchObject({ start_date: -range.end_date, value: 0 })
  }
})

test('a comparison with a range before all events is 0', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  const parameters = { site_id, metric: 'event_count', group_by: 'month', start_date: 0, end_date: noon + 1 }
  const { value, compare } = await queryStats({ ...parameters, compare: 'previous_period' })
  expect(value).toBe(1)
  expect(compare).toMatchObject({ start_date: -noon - 1, end_date: 0, value: 0 })
  expect(new Date(compare?.breakdown?.[0]?.timestamp ?? 0).toISOString()).toMatch(/^1915-08-01/)
})
