import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { previewOf } from '@sluice/contracts/alert-preview'
import { type AlertTrigger, comparesWindows, newAlertState, nextAlertState } from '@sluice/contracts/alert-state'
import type { EventRow } from '@sluice/contracts/event-columns'
import { measureAlertSeries } from '@sluice/event-store/alerts/alert-series'
import type { AlertSpec } from '@sluice/event-store/alerts/alert-spec'
import { measureAlert, type MeasureOptions } from '@sluice/event-store/alerts/measure-alert'
import { openClickHouse, type QueryResult } from '@sluice/event-store/clickhouse/client'
import { queryReader, type QueryRunner, type Statement } from '@sluice/event-store/clickhouse/query-runner'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { type TestClickHouse, testClickHouse } from '../support/engines/test-engines.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const end = Date.UTC(2026, 0, 31)
const start = end - 30 * 24 * hourMs
const siteId = 'month'

let database: TestClickHouse
let client: ReturnType<typeof openClickHouse>
let runner: QueryRunner
let events: EventRow[]

/** Bursts of 40 to 90 minutes some days apart, of a few sessions each, and lonely events between them. */
function monthOfEvents(): EventRow[] {
  const rows: EventRow[] = []
  let seed = 7
  const random = (): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return seed / 2 ** 31
  }
  const add = (timestamp: number, session: string, type: string): void => {
    rows.push({
      site_id: siteId,
      environment: 'prod',
      event_type: type,
      timestamp: Math.floor(timestamp),
      event_id: randomUUID(),
      session_id: session,
      user_id: `u${Math.floor(random() * 9)}`,
      received_at: Math.floor(timestamp),
    })
  }
  for (let at = start - 26 * hourMs; at < end - 3 * hourMs; at += (2 + 2 * random()) * 24 * hourMs) {
    const lengthMs = (40 + random() * 50) * minuteMs
    for (let session = 0; session < 6; session += 1) {
      const from = at + random() * lengthMs
      const count = 1 + Math.floor(random() * 3)
      for (let place = 0; place < count; place += 1) {
        add(from + place * random() * 4 * minuteMs, `s${Math.floor(at)}-${session}`, place === 1 ? 'purchase' : 'view')
      }
    }
    add(at + 6 * hourMs * random(), '', 'view')
  }
  return rows.sort((one, other) => one.timestamp - other.timestamp)
}

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  client = openClickHouse(database.readerUrl)
  runner = queryReader(client).runnerFor({
    key: 'worker',
    signal: new AbortController().signal,
    priority: 'background',
  })
  events = monthOfEvents()
  const inserter = openEventInserter(database.url)
  const payloads = [Buffer.from(events.map((row) => `${JSON.stringify(row)}\n`).join(''))]
  await inserter.insert(
    { payloads, hasUndated: false },
    { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 10_000 },
  )
  await inserter.close()
})

afterAll(async () => {
  await client.close()
  await database.drop()
})

/** How many events were sent before a time. */
function sentBefore(time: number): number {
  const index = events.findIndex(({ timestamp }) => timestamp >= time)
  return index < 0 ? events.length : index
}

/** A runner that queries ClickHouse once for all windows with the same events, because their results are the same. */
function askingOnce(): QueryRunner {
  const answers = new Map<string, ReturnType<QueryRunner['query']>>()
  return {
    ...runner,
    query: async <Row>(statement: Statement) => {
      const { start: from, end: until } = statement.params
      const isDistinct = statement.sql.includes('session_key')
      const key = [sentBefore(Number(from)), sentBefore(Number(until)), isDistinct].join()
      const answer = answers.get(key) ?? runner.query(statement)
      answers.set(key, answer)
      return answer as Promise<QueryResult<Row>>
    },
  }
}

/** The firings of a rule that was evaluated at each of the month's 43,200 minutes. */
async function evaluateMonth(
  spec: AlertSpec,
  trigger: AlertTrigger,
  options: MeasureOptions,
): Promise<{ from: number; to: number | null; value: number }[]> {
  const firings: { from: number; to: number | null; value: number }[] = []
  const asking = askingOnce()
  let state = newAlertState
  for (let minute = start + minuteMs; minute <= end; minute += minuteMs) {
    const result = nextAlertState(trigger, state, minute, await measureAlert(spec, minute, options, asking))
    state = result.state
    const { transition } = result
    if (transition?.to === 'firing') firings.push({ from: minute, to: null, value: transition.value })
    const last = firings.at(-1)
    if (transition?.to === 'resolved' && last) last.to = minute
  }
  return firings
}

async function previewAndReality(spec: Partial<AlertSpec>, parts: Partial<AlertTrigger>) {
  const asked: AlertSpec = {
    siteId,
    environment: 'prod',
    metric: 'event_count',
    windowMs: 10 * minuteMs,
    ...spec,
  }
  const trigger: AlertTrigger = {
    operator: 'greater_than',
    threshold: 3,
    forMs: 0,
    cooldownMs: 0,
    noData: 'zero',
    ...parts,
  }
  const options = {
    comparesPrevious: comparesWindows(trigger.operator),
    distinguishesNoData: trigger.noData !== 'zero',
  }
  const preview = previewOf(trigger, await measureAlertSeries(asked, { start, end }, options, runner))
  return { preview, happened: await evaluateMonth(asked, trigger, options) }
}

test.each<[string, Partial<AlertSpec>, Partial<AlertTrigger>]>([
  ['a number of events', {}, { threshold: 1, forMs: 2 * minuteMs, cooldownMs: 30 * minuteMs }],
  [
    'no events',
    { windowMs: 5 * hourMs, eventType: 'purchase' },
    { operator: 'less_than', threshold: 1, noData: 'alert' },
  ],
  ['a rise', { windowMs: hourMs }, { operator: 'increases_by_percent', threshold: 80, noData: 'keep' }],
])('preview and what happens over a month are equal for %s', async (_, spec, trigger) => {
  const { preview, happened } = await previewAndReality(spec, trigger)
  expect(happened.length).toBeGreaterThan(5)
  expect(preview.firings).toStrictEqual(happened)
})

test('and within one step for another metric', async () => {
  const { preview, happened } = await previewAndReality({ metric: 'unique_sessions', windowMs: 3 * hourMs }, {})
  expect(preview.step_ms).toBe(15 * minuteMs)
  expect(happened.length).toBeGreaterThan(5)
  expect(preview.firings).toHaveLength(happened.length)
  preview.firings.forEach(({ from, to }, index) => {
    const real = happened[index]
    expect(Math.abs(from - (real?.from ?? 0))).toBeLessThan(preview.step_ms)
    expect(Math.abs((to ?? end) - (real?.to ?? end))).toBeLessThan(preview.step_ms)
  })
})
