import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { EventRow } from '@sluice/contracts/event-columns'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { openEventReader } from '../event-reader.ts'
import { openEventInserter } from '../insert/event-inserter.ts'
import { evaluateStats } from './evaluate-stats.ts'

const hourMs = 3_600_000
const noon = Date.UTC(2024, 4, 15, 12)
const siteId = 'shop'

let database: TestClickHouse

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  const inserter = openEventInserter(database.url)
  const lines = ['ada', 'bob', 'ada'].map((user_id, index) => {
    const timestamp = noon + index * hourMs
    const row: EventRow = {
      site_id: siteId,
      environment: 'prod',
      event_type: 'page_view',
      timestamp,
      event_id: randomUUID(),
      user_id,
      received_at: timestamp,
    }
    return JSON.stringify(row)
  })
  const batch = { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false }
  await inserter.insert(batch, { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 10_000 })
  await inserter.close()
})

afterAll(async () => {
  await database.drop()
})

test('a background worker evaluates a metric of a site by the event store alone, without a service', async () => {
  const reader = openEventReader(database.readerUrl)
  const { signal } = new AbortController()
  const runner = reader.runnerFor({ key: 'worker', signal, priority: 'background' })
  const range = { siteId, environment: 'prod', start: noon, end: noon + 3 * hourMs } as const
  const { value } = await evaluateStats({ ...range, metric: 'unique_users' }, runner)
  await reader.close()
  expect(value).toBe(2)
})

test('a spec can have groups and comparisons, and its other fields have the defaults of the HTTP interface', async () => {
  const reader = openEventReader(database.readerUrl)
  const runner = reader.runnerFor({ key: 'worker', signal: new AbortController().signal, priority: 'background' })
  const range = { siteId, environment: 'prod', start: noon + hourMs, end: noon + 3 * hourMs } as const
  const numbers = await evaluateStats(
    { ...range, metric: 'event_count', groupBy: 'hour', compare: 'previous_period' },
    runner,
  )
  await reader.close()
  expect(numbers).toStrictEqual({
    start: noon + hourMs,
    end: noon + 3 * hourMs,
    value: 2,
    isEstimated: false,
    groups: [
      { start: noon + hourMs, value: 1, isEstimated: false },
      { start: noon + 2 * hourMs, value: 1, isEstimated: false },
    ],
    compared: {
      start: noon - hourMs,
      end: noon + hourMs,
      value: 1,
      isEstimated: false,
      groups: [
        { start: noon - hourMs, value: 0, isEstimated: false },
        { start: noon, value: 1, isEstimated: false },
      ],
    },
  })
})

test('too many groups by time are refused before anything is read, and the error names the limit', async () => {
  const reader = openEventReader('http://127.0.0.1:1/none')
  const runner = reader.runnerFor({ key: 'worker', signal: new AbortController().signal, priority: 'background' })
  const range = { siteId, environment: 'prod', start: 0, end: noon } as const
  await expect(evaluateStats({ ...range, metric: 'event_count', groupBy: 'hour' }, runner)).rejects.toMatchObject({
    code: 'query_too_large',
    limit: 'buckets',
  })
  await reader.close()
})

test('a reader and an inserter pass their checks on a migrated database, and fail while the server is unavailable', async () => {
  const [reader, inserter] = [openEventReader(database.readerUrl), openEventInserter(database.url)]
  for (const store of [reader, inserter]) {
    await store.check()
    await store.checkSchema()
    await store.close()
  }
  const absent = openEventReader('http://127.0.0.1:1/none')
  await expect(absent.check()).rejects.toMatchObject({ code: 'unavailable' })
  await expect(absent.checkSchema()).rejects.toMatchObject({ code: 'unavailable' })
  await absent.close()
})
