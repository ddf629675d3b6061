import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { EventSummary } from '@sluice/contracts/event-summary'
import type { DeliveryBody, SummaryInterval } from '@sluice/contracts/webhooks'
import { type ExportReader, openExportReaderAt } from '@sluice/event-store/exports/export-reader'
import { LeaseLostError, leaseMs } from '@sluice/leases/lease-table'
import { siteStore } from '@sluice/postgres/sites'
import { type SummaryStore, summaryStore } from '@sluice/postgres/summaries'
import { newId } from '@sluice/runtime/ids'
import { checkDelivery } from '../../../tests/support/check-delivery.ts'
import { expectedStats, type RawEvent } from '../../../tests/support/oracle/expected-stats.ts'
import { openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { addWebhook } from '../../../tests/support/webhooks.ts'
import { summaryUnit } from './summary-unit.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
let database: StatsDatabase
let postgres: TestPostgres
let reader: ExportReader
let summaries: SummaryStore

beforeAll(async () => {
  database = await openStatsDatabase()
  postgres = await openTestPostgres()
  reader = openExportReaderAt(database.owner.address)
  summaries = summaryStore(postgres)
})

afterAll(async () => {
  await reader.close()
  await postgres.drop()
  await database.drop()
})

interface WorkOptions {
  completeUntil?: number
  store?: SummaryStore
  finish?: SummaryStore['finish']
}

/** Does all that is due at `now`, as the worker does; returns the number of units. */
async function workAt(now: number, options: WorkOptions = {}): Promise<number> {
  const { completeUntil = now, store = summaries } = options
  const finish = options.finish ?? ((...given: Parameters<SummaryStore['finish']>) => store.finish(...given))
  const unit = summaryUnit({
    summaries: { finish },
    sites: siteStore(postgres),
    watermarks: { readCompleteTimes: () => Promise.resolve({ live: completeUntil, all: 0 }) },
    reader,
    clock: { now: () => now },
  })
  for (let units = 0; ; units++) {
    const [leased] = await store.leases.take(now, 1)
    if (!leased) return units
    const { next } = await unit(leased.job, { ...leased, signal: new AbortController().signal })
    await store.leases.release(leased, next === 'now' ? now : (next as number), { isProgress: true })
  }
}

/** What was queued for a webhook, by period. */
async function delivered(endpointId: string): Promise<DeliveryBody[]> {
  const rows = await postgres.db
    .selectFrom('deliveries')
    .select(['body', 'kind'])
    .where('endpoint_id', '=', endpointId)
    .orderBy('delivery_id')
    .execute()
  return rows
    .map(({ body }) => JSON.parse(body.toString()) as DeliveryBody)
    .toSorted((a, b) => a.timestamp - b.timestamp)
}

async function periodsOf(endpointId: string): Promise<number[]> {
  return (await delivered(endpointId)).map(({ data }) => (data as EventSummary).period_start)
}

function webhook(siteId: string, at: number, summaryInterval: SummaryInterval, parts = {}): Promise<string> {
  const url = `https://example.com/${newId('hook')}`
  return addWebhook(postgres, { siteId, url, events: ['event_summary'], summaryInterval, at, ...parts })
}

async function siteIn(timezone: string, siteId = newId('site')): Promise<string> {
  const settings = { name: 'Shop', timezone, conversion_event: null, retention_days: null }
  await siteStore(postgres).create(siteId, settings, 'key_1')
  return siteId
}

/** Webhooks of other tests must not be due any more. */
async function removeWebhooks(): Promise<void> {
  await postgres.db.deleteFrom('endpoints').execute()
  await postgres.db.deleteFrom('summaries').execute()
  summaries = summaryStore(postgres)
}

/** The day before the longest one in Berlin: clocks are put back on 25 October. */
const firstDay = Date.UTC(2026, 9, 23, 22)

const event = fc.record({
  timestamp: fc.integer({ min: firstDay - dayMs, max: firstDay + 75 * hourMs }),
  event_type: fc.constantFrom(...Array.from({ length: 14 }, (_, n) => `type-${n}`)),
  user_id: fc.option(fc.constantFrom('ada', 'bob', 'cy', 'dee'), { nil: undefined }),
  session_id: fc.option(fc.constantFrom(...Array.from({ length: 60 }, (_, n) => `s${n}`)), { nil: undefined }),
  environment: fc.constantFrom('prod' as const, 'prod' as const, 'dev' as const),
})

test('hourly and daily summaries over the change of clocks are what the oracle says', async () => {
  await removeWebhooks()
  const drawn = fc.sample(fc.array(event, { minLength: 500, maxLength: 500 }), { numRuns: 1, seed: 15 })[0] ?? []
  const siteId = await database.siteWith(
    drawn.map(({ user_id, session_id, ...fields }) => ({
      at: 0,
      ...fields,
      ...(user_id !== undefined && { user_id }),
      ...(session_id !== undefined && { session_id }),
    })),
  )
  const raw: RawEvent[] = drawn.map(({ user_id, session_id, ...fields }, n) => ({
    site_id: siteId,
    event_id: String(n),
    ...fields,
    ...(user_id !== undefined && { user_id }),
    ...(session_id !== undefined && { session_id }),
  }))
  await siteIn('Europe/Berlin', siteId)
  const at = firstDay + 5 * hourMs
  const daily = await webhook(siteId, at, '1d')
  const hourlyFrom = firstDay + 40 * hourMs
  const hourly = await webhook(siteId, hourlyFrom, '1h')
  const dev = await webhook(siteId, at, '1d', { environment: 'dev' })
  // The worker looks every 50 minutes, which is at no boundary.
  for (let now = at; now < firstDay + 74 * hourMs; now += 50 * 60_000) await workAt(now)

  const days = [0, 24, 49].map((hours) => firstDay + hours * hourMs)
  expect(await periodsOf(daily)).toEqual(days)
  expect(await periodsOf(dev)).toEqual(days)
  const hours = await periodsOf(hourly)
  expect(hours).toEqual(Array.from({ length: hours.length }, (_, n) => hourlyFrom + n * hourMs))
  expect(hours.length).toBeGreaterThan(30)
  for (const [endpointId, environment] of [
    [daily, 'prod'],
    [hourly, 'prod'],
    [dev, 'dev'],
  ] as const) {
    for (const body of await delivered(endpointId)) {
      checkDelivery(body)
      const { event_type, timestamp, site_id, data } = body
      const { period_start: start_date, period_end: end_date } = data as EventSummary
      const expected = (metric: string, parts = {}) =>
        expectedStats(raw, { site_id: siteId, environment, start_date, end_date, metric, ...parts })
      const types = expected('event_count_by_type', { limit: 10 }).breakdown ?? []
      expect({ event_type, timestamp, site_id }).toEqual({
        event_type: 'event_summary',
        timestamp: end_date,
        site_id: siteId,
      })
      expect(data).toEqual({
        period_start: start_date,
        period_end: end_date,
        event_count: expected('event_count').value,
        unique_users: expected('unique_users').value,
        unique_sessions: expected('unique_sessions').value,
        bounce_rate: expected('bounce_rate').value,
        top_event_types: types
          .filter((each) => each.event_type !== '(other)')
          .map((each) => ({ event_type: each.event_type, count: each.value })),
      })
    }
  }
})

test('a summary waits until everything that was accepted in its period can be read', async () => {
  await removeWebhooks()
  const start = Date.UTC(2026, 4, 15, 12)
  const end = start + hourMs
  const id = await webhook(await siteIn('UTC'), start, '1h')
  await workAt(start)
  for (const [now, completeUntil] of [
    [end, end - 1],
    [end + 5_000, end - 1],
    [end + 600_000, end - 1],
  ] as const) {
    expect(await workAt(now, { completeUntil })).toBe(1)
    expect(await periodsOf(id)).toEqual([])
  }
  await workAt(end + 605_000, { completeUntil: end })
  expect(await periodsOf(id)).toEqual([start])
})

test('after an outage of five days the last 48 hours follow, the oldest first, and then each at its time', async () => {
  await removeWebhooks()
  const start = Date.UTC(2026, 4, 15, 12)
  const siteId = await siteIn('UTC')
  const [hourly, daily] = [await webhook(siteId, start, '1h'), await webhook(siteId, start, '1d')]
  await workAt(start + hourMs)
  expect(await periodsOf(hourly)).toEqual([start])
  const back = start + 5 * dayMs + 1_234_567
  await workAt(back)
  const missed = Array.from({ length: 48 }, (_, n) => start + 5 * dayMs - (48 - n) * hourMs)
  expect(await periodsOf(hourly)).toEqual([start, ...missed])
  expect(await periodsOf(daily)).toEqual([0, 1, 2, 3, 4].map((days) => Date.UTC(2026, 4, 15 + days)))
  expect(await workAt(back + 600_000)).toBe(0)
  await workAt(start + 5 * dayMs + hourMs)
  expect(await periodsOf(hourly)).toEqual([start, ...missed, start + 5 * dayMs])
})

test('a worker that dies or freezes neither loses nor repeats a summary', async () => {
  await removeWebhooks()
  const start = Date.UTC(2026, 4, 15, 12)
  const id = await webhook(await siteIn('UTC'), start, '1h')
  await workAt(start)
  const now = start + hourMs
  const killed = new Error('killed')
  await expect(workAt(now, { finish: () => Promise.reject(killed) })).rejects.toBe(killed)
  expect(await periodsOf(id)).toEqual([])
  // Another worker does it when the lease has lapsed; the first one, which was frozen, is refused.
  let frozen: (() => Promise<void>) | undefined
  const freeze: SummaryStore['finish'] = (...parameters) => {
    frozen = () => summaries.finish(...parameters)
    return Promise.reject(killed)
  }
  await expect(workAt(now + leaseMs, { finish: freeze })).rejects.toBe(killed)
  await workAt(now + 2 * leaseMs, { store: summaryStore(postgres) })
  await expect(frozen?.()).rejects.toThrow(LeaseLostError)
  expect(await periodsOf(id)).toEqual([start])
})

test('webhooks get what they take since they were made, and none that is off gets any', async () => {
  await removeWebhooks()
  const start = Date.UTC(2026, 4, 15, 12)
  const siteId = await siteIn('UTC')
  const first = await webhook(siteId, start, '1h')
  const off = await webhook(siteId, start, '1h', { active: false })
  const other = await webhook(siteId, start, '1h', { events: ['alert'] })
  const disabled = await webhook(siteId, start, '1h')
  await postgres.db
    .updateTable('endpoints')
    .set({ disabled_at: new Date(start) })
    .where('endpoint_id', '=', disabled)
    .execute()
  await workAt(start)
  const later = await webhook(siteId, start + 1.5 * hourMs, '1h')
  await workAt(start + 3 * hourMs)
  const all = [0, 1, 2].map((hours) => start + hours * hourMs)
  expect(await periodsOf(first)).toEqual(all)
  expect(await periodsOf(later)).toEqual(all.slice(1))
  expect(await periodsOf(off)).toEqual([])
  expect(await periodsOf(other)).toEqual([])
  expect(await periodsOf(disabled)).toEqual(all)
  const rows = await postgres.db.selectFrom('deliveries').select('status').where('endpoint_id', '=', disabled).execute()
  expect(rows.map(({ status }) => status)).toEqual(['failed', 'failed', 'failed'])

  // Nobody takes them for a while: what ended meanwhile does not follow.
  const change = { active: false, updated_at: new Date(start + 3 * hourMs) }
  await postgres.db.updateTable('endpoints').set(change).execute()
  await workAt(start + 4 * hourMs)
  const again = start + 9.5 * hourMs
  await postgres.db
    .updateTable('endpoints')
    .set({ active: true, updated_at: new Date(again) })
    .where('endpoint_id', '=', first)
    .execute()
  await workAt(again)
  await workAt(start + 10 * hourMs)
  expect(await periodsOf(first)).toEqual([...all, start + 9 * hourMs])
})

test('the oldest of several webhooks with one URL that is not switched off gets the summary', async () => {
  await removeWebhooks()
  const start = Date.UTC(2026, 4, 15, 12)
  const siteId = await siteIn('UTC')
  const url = 'https://example.com/one'
  const disabled = await webhook(siteId, start, '1h', { url })
  await postgres.db
    .updateTable('endpoints')
    .set({ disabled_at: new Date(start), disabled_reason: 'It failed.' })
    .where('endpoint_id', '=', disabled)
    .execute()
  const older = await webhook(siteId, start, '1h', { url })
  const newer = await webhook(siteId, start, '1h', { url })
  await workAt(start)
  await workAt(start + hourMs)
  expect(await periodsOf(disabled)).toEqual([])
  expect(await periodsOf(older)).toEqual([start])
  expect(await periodsOf(newer)).toEqual([])
})

test('too many events to measure leave out one summary', async () => {
  await removeWebhooks()
  const start = Date.UTC(2026, 4, 15, 12)
  const id = await webhook(await siteIn('UTC'), start, '1h')
  await workAt(start)
  const [leased] = await summaries.leases.take(start + hourMs, 1)
  if (!leased) throw new Error('nothing is due')
  await summaries.finish(leased, leased.job, { start, end: start + hourMs, body: undefined }, start + hourMs)
  await summaries.leases.release(leased, start + hourMs, { isProgress: true })
  await workAt(start + 2 * hourMs)
  expect(await periodsOf(id)).toEqual([start + hourMs])
})
