import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { hour, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/stats-database.ts'
import { comparedRange } from './compared-range.ts'

let database: StatsDatabase
let ask: StatsDatabase['ask']

beforeAll(async () => {
  database = await openStatsDatabase()
  ;({ ask } = database)
})

afterAll(async () => {
  await database.drop()
})

test.each(['event_count', 'event_count_by_type', 'unique_users', 'bounce_rate'])(
  '%s compared is what asking for that range answers',
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
        const asked = { site_id, metric, group_by, limit: 1 }
        const { compare: compared } = await ask({ ...asked, compare })
        const { start_date = 0, end_date = 0 } = compared ?? {}
        expect(end_date - start_date).toBe(2 * hour)
        const { value, breakdown } = await ask({ ...asked, start_date, end_date })
        expect(compared).toStrictEqual({ start_date, end_date, value, ...(breakdown && { breakdown }) })
      }
    }
  },
)

test('without compare nothing is compared', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  expect(await ask({ site_id, metric: 'event_count' })).not.toHaveProperty('compare')
})

describe('previous_year', () => {
  const over = (start: string, end: string, zone = 'UTC') => {
    const range = comparedRange({ start: Date.parse(start), end: Date.parse(end) }, 'previous_year', zone)
    return [range.start, range.end].map((at) => new Date(at).toISOString().slice(0, 16))
  }

  test.each([
    ['the same dates', '2023-05-01', '2023-06-01', ['2022-05-01T00:00', '2022-06-01T00:00']],
    ['29 February is compared with the 28th', '2024-02-29', '2024-03-01', ['2023-02-28T00:00', '2023-03-01T00:00']],
    ['February with February', '2024-02-01', '2024-03-01', ['2023-02-01T00:00', '2023-03-01T00:00']],
    ['1 to 28 February with the same', '2024-02-01', '2024-02-29', ['2023-02-01T00:00', '2023-03-01T00:00']],
    ['and the other way round', '2025-02-01', '2025-03-01', ['2024-02-01T00:00', '2024-02-29T00:00']],
    [
      'a range that would be empty keeps its length',
      '2024-02-28T12:00Z',
      '2024-02-29T12:00Z',
      ['2023-02-28T12:00', '2023-03-01T12:00'],
    ],
  ])('%s', (_, start, end, expected) => {
    expect(over(start, end)).toStrictEqual(expected)
  })

  test('dates are those of the time zone', () => {
    // 1 April in Berlin, at summer time in both years; 31 March 2024, at whose midnight it was winter still.
    expect(over('2024-03-31T22:00Z', '2024-04-01T22:00Z', 'Europe/Berlin')).toStrictEqual([
      '2023-03-31T22:00',
      '2023-04-01T22:00',
    ])
    expect(over('2024-03-30T23:00Z', '2024-03-31T22:00Z', 'Europe/Berlin')).toStrictEqual([
      '2023-03-30T22:00',
      '2023-03-31T22:00',
    ])
  })
})

test('a comparison may go back by centuries', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  for (const metric of ['event_count', 'bounce_rate']) {
    const range = { start_date: 0, end_date: Date.UTC(2200, 0, 1) }
    const { compare } = await ask({ site_id, metric, ...range, compare: 'previous_period' })
    expect(compare).toMatchObject({ start_date: -range.end_date, value: 0 })
  }
})

test('a comparison with times before there were events answers 0', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  const asked = { site_id, metric: 'event_count', group_by: 'month', start_date: 0, end_date: noon + 1 }
  const { value, compare } = await ask({ ...asked, compare: 'previous_period' })
  expect(value).toBe(1)
  expect(compare).toMatchObject({ start_date: -noon - 1, end_date: 0, value: 0 })
  expect(new Date(compare?.breakdown?.[0]?.timestamp ?? 0).toISOString()).toMatch(/^1915-08-01/)
})
