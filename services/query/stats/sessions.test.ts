import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { hour, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'

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

const bounce = async (siteId: string, more: Record<string, string | number> = {}): Promise<number> =>
  (await queryStats({ site_id: siteId, metric: 'bounce_rate', ...more })).value
const duration = async (siteId: string, more: Record<string, string | number> = {}): Promise<number> =>
  (await queryStats({ site_id: siteId, metric: 'avg_session_duration', ...more })).value

test('events without a session count in no session metric', async () => {
  const siteId = await siteWith([{ at: 0 }, { at: 1, session_id: '' }])
  expect(await bounce(siteId)).toBe(0)
  expect(await queryStats({ site_id: siteId, metric: 'unique_sessions' })).toMatchObject({ value: 0 })
})

test('durations are rounded to milliseconds, percentages to 2 decimals', async () => {
  const siteId = await siteWith([
    { at: 0, session_id: 'a' },
    { at: 1000 / hour, session_id: 'a', event_type: 'purchase' },
    { at: 0, session_id: 'b' },
    { at: 0, session_id: 'c' },
  ])
  expect(await duration(siteId)).toBe(0.333)
  expect(await bounce(siteId)).toBe(66.67)
  expect(await queryStats({ site_id: siteId, metric: 'conversion_rate' })).toMatchObject({ value: 33.33 })
})

test('a session that starts in the range counts as a whole, also beyond the end', async () => {
  const siteId = await siteWith([
    { at: 1, session_id: 's' },
    { at: 5, session_id: 's', event_type: 'purchase' },
  ])
  expect(await duration(siteId)).toBe(4 * 3600)
  expect(await bounce(siteId)).toBe(0)
  expect(await queryStats({ site_id: siteId, metric: 'conversion_rate' })).toMatchObject({ value: 100 })
})

test('a session that started in the 24 hours before the range is not counted in it', async () => {
  const siteId = await siteWith([
    { at: -24, session_id: 's' },
    { at: 1, session_id: 's' },
  ])
  expect(await bounce(siteId)).toBe(0)
  expect(await queryStats({ site_id: siteId, metric: 'unique_sessions' })).toMatchObject({ value: 1 })
})

test('a session id without events in the 24 hours before the range starts a new session', async () => {
  const siteId = await siteWith([
    { at: -24 - 1 / hour, session_id: 's' },
    { at: 1, session_id: 's' },
  ])
  expect(await bounce(siteId)).toBe(100)
})

test('a session ends 24 hours after its first event, and its id counts once in a range', async () => {
  const siteId = await siteWith([
    { at: 0, session_id: 's' },
    { at: 24 - 1 / hour, session_id: 's' },
    { at: 24, session_id: 's', event_type: 'purchase' },
    { at: 60, session_id: 's' },
  ])
  const wide = { end_date: noon + 100 * hour }
  expect(await duration(siteId, wide)).toBe(24 * 3600 - 0.001)
  const byDay = await queryStats({ site_id: siteId, metric: 'conversion_rate', group_by: 'day', ...wide })
  expect(byDay.value).toBe(0)
  expect(
    (await queryStats({ site_id: siteId, metric: 'bounce_rate', ...wide, start_date: noon + 50 * hour })).value,
  ).toBe(100)
})

test('each session is in the bucket of its first event alone', async () => {
  const siteId = await siteWith([
    { at: 0.9, session_id: 'a' },
    { at: 1.1, session_id: 'a' },
    { at: 1.5, session_id: 'b' },
  ])
  const { value, breakdown } = await queryStats({ site_id: siteId, metric: 'bounce_rate', group_by: 'hour' })
  expect(value).toBe(50)
  expect(breakdown).toStrictEqual([
    { timestamp: noon, value: 0 },
    { timestamp: noon + hour, value: 100 },
  ])
})

test('the country of a session is that of its first event by time and event_id', async () => {
  const siteId = await siteWith([{ at: 0, session_id: 's', event_id: 'b', country: 'FR' }])
  // These events are in a part of their own, which is read later.
  await siteWith([
    { site_id: siteId, at: 0, session_id: 's', event_id: 'a', country: 'DE' },
    { site_id: siteId, at: 1, session_id: 's', event_id: '0', country: 'US' },
  ])
  const { breakdown } = await queryStats({ site_id: siteId, metric: 'avg_session_duration', group_by: 'country' })
  expect(breakdown).toStrictEqual([{ timestamp: noon, key: 'DE', country: 'DE', value: 3600 }])
})

test('a session matches a filter by any of its events and is measured as a whole', async () => {
  const siteId = await siteWith([
    { at: 0, session_id: 's', country: 'DE' },
    { at: 1, session_id: 's', country: 'FR', device_type: 'mobile' },
    { at: 0, session_id: 'other', country: 'DE' },
  ])
  expect(await duration(siteId, { country: 'fr' })).toBe(3600)
  expect(await duration(siteId, { country: 'DE' })).toBe(1800)
  expect(await bounce(siteId, { country: 'DE', device_type: 'mobile' })).toBe(0)
  expect(await bounce(siteId, { country: 'FR', device_type: 'mobile' })).toBe(0)
})

test('the target of conversion_rate is purchase, or target_event', async () => {
  const siteId = await siteWith([
    { at: 0, session_id: 'a', event_type: 'purchase' },
    { at: 0, session_id: 'b', event_type: 'sign up' },
    { at: 1, session_id: 'b', event_type: 'sign up' },
    { at: 0, session_id: 'c' },
    { at: 0, session_id: 'd', event_type: 'sign up' },
  ])
  expect(await queryStats({ site_id: siteId, metric: 'conversion_rate' })).toMatchObject({ value: 25 })
  expect(await queryStats({ site_id: siteId, metric: 'conversion_rate', target_event: 'sign up' })).toMatchObject({
    value: 50,
  })
})
