import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { EventRow } from '@sluice/contracts/event-columns'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { ClickHouseError, QueryTooLargeError } from '@sluice/event-store/clickhouse/errors'
import { type QueryReader, queryReader, type Statement } from '@sluice/event-store/clickhouse/query-runner'
import { type EventInserter, openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { type AlertRuleStore, alertRuleStore } from '@sluice/postgres/alert-rules'
import { siteStore } from '@sluice/postgres/sites'
import { createMetrics } from '@sluice/runtime/metrics'
import { addRule } from '../../../tests/support/alert-rules.ts'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { alertUnit } from './alert-unit.ts'
import { alertMetrics } from './metrics.ts'

const minuteMs = 60_000
const noon = Date.UTC(2026, 0, 2, 12)

let postgres: TestPostgres
let database: TestClickHouse
let client: ReturnType<typeof openClickHouse>
let inserter: EventInserter
let rules: AlertRuleStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  rules = alertRuleStore(postgres)
  database = testClickHouse()
  await database.create()
  client = openClickHouse(database.readerUrl)
  inserter = openEventInserter(database.url)
})

afterAll(async () => {
  await client.close()
  await inserter.close()
  await database.drop()
  await postgres.drop()
})

/** A worker for one site, with a clock and a watermark that the test sets, and statements that may fail. */
function rig(siteId: string) {
  const time = { now: noon, completeUntil: noon }
  const statements: Statement[] = []
  let lists = 0
  let failure: ((statement: Statement) => Error | undefined) | undefined
  const registry = createMetrics()
  const metrics = alertMetrics(registry)
  const clickHouseReader = queryReader(client)
  const reader: QueryReader = {
    runnerFor: (caller) => ({
      ...clickHouseReader.runnerFor(caller),
      query: async (statement, options) => {
        statements.push(statement)
        const error = failure?.(statement)
        if (error) throw error
        return clickHouseReader.runnerFor(caller).query(statement, options)
      },
    }),
  }
  const unitOf = () =>
    alertUnit({
      rules: {
        ...rules,
        listEnabled: (...call) => {
          lists += 1
          return rules.listEnabled(...call)
        },
      },
      sites: siteStore(postgres),
      watermarks: { readCompleteTimes: () => Promise.resolve({ live: time.completeUntil, all: 0 }) },
      reader,
      clock: { now: () => time.now },
      metrics,
    })
  const work = unitOf()

  /** Runs the unit as a worker would at this time, `completeUntil` minutes and seconds after noon. */
  async function runAt(minutes: number, { completeMinutes = minutes, by = work } = {}): Promise<number> {
    time.now = noon + minutes * minuteMs
    time.completeUntil = noon + completeMinutes * minuteMs
    const row = await postgres.db
      .selectFrom('alert_sites')
      .selectAll()
      .where('site_id', '=', siteId)
      .executeTakeFirstOrThrow()
    const lease = { id: siteId, lease: 1, signal: new AbortController().signal }
    const { next } = await by({ siteId, allEvaluatedMinute: row.judged_minute.getTime() }, lease)
    return ((next as number) - noon) / minuteMs
  }

  return {
    runAt,
    unitOf,
    statements,
    lists: () => lists,
    transitions: async () =>
      (await registry.metrics()).split('\n').filter((line) => line.startsWith('sluice_worker_alert_transitions_total')),
    failWith: (make: typeof failure) => {
      failure = make
    },
  }
}

/** Stores events at these minutes after noon. */
async function sendEvents(siteId: string, minutes: readonly number[]): Promise<void> {
  const lines = minutes.map((at) => {
    const timestamp = Math.round(noon + at * minuteMs)
    const row: EventRow = {
      site_id: siteId,
      environment: 'prod',
      event_type: 'view',
      timestamp,
      event_id: randomUUID(),
      received_at: timestamp,
      session_id: 'a',
    }
    return `${JSON.stringify(row)}\n`
  })
  const batch = { payloads: [Buffer.from(lines.join(''))], hasUndated: false }
  await inserter.insert(batch, { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 10_000 })
}

async function historyOf(ruleId: string): Promise<string[]> {
  const { history } = await rules.history(ruleId, { limit: 100, offset: 0 }, noon + 24 * 60 * minuteMs)
  return history.reverse().map(({ timestamp, to }) => `${to}@${(timestamp - noon) / minuteMs}`)
}

async function evaluatedMinutes(ruleId: string): Promise<number | undefined> {
  const rule = await rules.find(ruleId, null)
  return rule && (rule.evaluatedMinute - noon) / minuteMs
}

test('a writer that stands for an hour fires no false "less than", and hides no "greater than"', async () => {
  const siteId = 'lagging'
  const at = noon - 5 * minuteMs
  const few = await addRule(postgres, { siteId, at, condition: { operator: 'less_than', threshold: 1 } })
  const many = await addRule(postgres, { siteId, at, condition: { operator: 'greater_than', threshold: 4 } })
  const visitors = await addRule(postgres, {
    siteId,
    at,
    condition: { metric: 'unique_sessions', operator: 'greater_than', threshold: 0 },
  })
  const { runAt, transitions } = rig(siteId)
  await sendEvents(siteId, [-4, -3, -2, -1])
  expect(await runAt(0)).toBe(1)
  // From here on the watermark stands at noon; what arrives meanwhile can be read in part.
  for (let minute = 0.2; minute < 20; minute += 0.5) await runAt(minute, { completeMinutes: 0.01 })
  expect(await historyOf(few.ruleId)).toStrictEqual([])
  expect(await historyOf(visitors.ruleId)).toStrictEqual(['firing@0'])
  await sendEvents(siteId, [20.1, 20.2, 20.3, 20.4, 20.5])
  for (let minute = 20.2; minute < 60; minute += 0.5) await runAt(minute, { completeMinutes: 0.01 })
  expect(await historyOf(few.ruleId)).toStrictEqual([])
  expect(await historyOf(many.ruleId)).toStrictEqual(['firing@21'])
  expect(await historyOf(visitors.ruleId)).toStrictEqual(['firing@0'])
  // All events of the hour arrive, and only the newest minute is evaluated.
  await sendEvents(siteId, [57, 58])
  await runAt(60, { completeMinutes: 60 })
  expect(await historyOf(few.ruleId)).toStrictEqual([])
  expect(await historyOf(many.ruleId)).toStrictEqual(['firing@21', 'ok@60'])
  expect(await historyOf(visitors.ruleId)).toStrictEqual(['firing@0'])
  expect(await transitions()).toStrictEqual([
    'sluice_worker_alert_transitions_total{to="firing"} 2',
    'sluice_worker_alert_transitions_total{to="resolved"} 1',
  ])
})

test('a minute is evaluated once its end is complete, and until then the worker looks each second', async () => {
  const siteId = 'waiting'
  const rule = await addRule(postgres, { siteId, at: noon, condition: { operator: 'less_than', threshold: 1 } })
  const { runAt, statements } = rig(siteId)
  expect(await runAt(1 + 1 / 60, { completeMinutes: 0.99 })).toBeCloseTo(1 + 2 / 60)
  expect(await evaluatedMinutes(rule.ruleId)).toBe(0)
  expect(statements).toStrictEqual([])
  expect(await runAt(1 + 2 / 60, { completeMinutes: 1 })).toBe(2)
  expect(await historyOf(rule.ruleId)).toStrictEqual(['firing@1'])
})

test('while the writers lag, the worker looks less often, and reads the rules once for a minute', async () => {
  const siteId = 'reading'
  const rule = await addRule(postgres, { siteId, at: noon, condition: { threshold: 0 } })
  const { runAt, lists } = rig(siteId)
  for (const second of [1, 4]) {
    const at = 1 + second / 60
    expect(await runAt(at, { completeMinutes: 0.9 })).toBeCloseTo(at + 1 / 60)
  }
  expect(lists()).toBe(0)
  await sendEvents(siteId, [0.5])
  for (const second of [5, 8, 11]) {
    const at = 1 + second / 60
    expect(await runAt(at, { completeMinutes: 0.9 })).toBeCloseTo(at + 3 / 60)
  }
  expect(lists()).toBe(1)
  expect(await historyOf(rule.ruleId)).toStrictEqual(['firing@1'])
})

test('after an outage only the newest minute is evaluated', async () => {
  const siteId = 'outage'
  const rule = await addRule(postgres, { siteId, at: noon, condition: { operator: 'greater_than', threshold: 0 } })
  const { runAt, statements } = rig(siteId)
  await sendEvents(siteId, [5, 105])
  await runAt(1)
  statements.length = 0
  await runAt(100)
  expect(statements).toHaveLength(1)
  expect(await historyOf(rule.ruleId)).toStrictEqual([])
  await runAt(106)
  expect(await historyOf(rule.ruleId)).toStrictEqual(['firing@106'])
})

test('equal questions are asked once, whatever the rules compare with', async () => {
  const siteId = 'equal'
  for (const threshold of [1, 2, 3]) await addRule(postgres, { siteId, at: noon, condition: { threshold } })
  await addRule(postgres, { siteId, at: noon, condition: { window: '6m' } })
  const { runAt, statements } = rig(siteId)
  await runAt(1)
  expect(statements).toHaveLength(1)
  expect(statements[0]?.sql.match(/countIf/g)).toHaveLength(2)
})

test('rules whose filters have regular expressions are measured by statements of their own', async () => {
  const siteId = 'patterns'
  for (const value of ['^/a', '^/b']) {
    const filter = [{ property: 'path', operator: 'matches', value }] as const
    await addRule(postgres, { siteId, at: noon, condition: { filter: [...filter] } })
  }
  const { runAt, statements } = rig(siteId)
  await runAt(1)
  expect(statements.map(({ sql }) => sql.match(/match\(/g)?.length)).toStrictEqual([1, 1])
})

test('a question that is too large fails alone, is told, and is asked again with the next minute', async () => {
  const siteId = 'too large'
  const large = await addRule(postgres, { siteId, at: noon, condition: { window: '7m', threshold: 0 } })
  const small = await addRule(postgres, { siteId, at: noon, condition: { window: '8m', threshold: 0 } })
  const { runAt, statements, failWith } = rig(siteId)
  await sendEvents(siteId, [0.5])
  failWith(({ sql, params }) =>
    sql.includes('value_1') || Number(params.end) - Number(params.start) === 7 * minuteMs
      ? new QueryTooLargeError('resources')
      : undefined,
  )
  expect(await runAt(1.5, { completeMinutes: 1 })).toBe(2)
  expect(await rules.find(large.ruleId, null)).toMatchObject({
    lastError: expect.stringContaining('choose a shorter window'),
    state: { state: 'ok', lastValue: null },
  })
  expect(await historyOf(small.ruleId)).toStrictEqual(['firing@1'])
  const asked = statements.length
  await runAt(1.6, { completeMinutes: 1 })
  expect(statements).toHaveLength(asked)
  failWith(undefined)
  await runAt(2)
  expect(await historyOf(large.ruleId)).toStrictEqual(['firing@2'])
  expect(await rules.find(large.ruleId, null)).toMatchObject({ lastError: null })
})

test('while ClickHouse is unavailable nothing changes, and the same minute is evaluated soon after', async () => {
  const siteId = 'away'
  const rule = await addRule(postgres, { siteId, at: noon, condition: { threshold: 0 } })
  const { runAt, failWith } = rig(siteId)
  await sendEvents(siteId, [0.5])
  for (const error of [
    new ClickHouseError(undefined, 'connection refused'),
    // A rule is not to blame for the load of the server.
    new ClickHouseError(241, '(total) memory limit exceeded: would use 8.10 GiB, maximum: 8.00 GiB'),
  ]) {
    failWith(() => error)
    expect(await runAt(1)).toBeCloseTo(1 + 5 / 60)
    expect(await evaluatedMinutes(rule.ruleId)).toBe(0)
    expect(await rules.find(rule.ruleId, null)).toMatchObject({ lastError: null })
  }
  failWith(undefined)
  await runAt(1 + 5 / 60)
  expect(await historyOf(rule.ruleId)).toStrictEqual(['firing@1'])
})

test('a rule that ClickHouse never answers keeps no other rule of its site from being evaluated', async () => {
  const siteId = 'greedy'
  // The groups are measured in the order of their windows; all but the last are never answered.
  const windows = [5, 6, 7, 8, 9]
  const all = await Promise.all(
    windows.map((minutes) =>
      addRule(postgres, { siteId, at: noon, condition: { window: `${minutes}m`, threshold: 0 } }),
    ),
  )
  const [greedy, small] = [all.slice(0, -1), all.at(-1)?.ruleId ?? '']
  const { runAt, failWith, statements } = rig(siteId)
  await sendEvents(siteId, [0.5, 1.5, 2.5])
  const windowOf = ({ params }: { params: Record<string, unknown> }) => Number(params.end) - Number(params.start)
  failWith((statement) =>
    statement.sql.includes('value_1') || windowOf(statement) < 9 * minuteMs
      ? new ClickHouseError(241, '(total) memory limit exceeded: would use 8.10 GiB, maximum: 8.00 GiB')
      : undefined,
  )
  // Two in a row look like a ClickHouse that is unavailable, and end the unit.
  for (const at of [1, 1 + 5 / 60]) expect(await runAt(at, { completeMinutes: 1 })).toBeCloseTo(at + 5 / 60)
  // Then the other one is measured first: ClickHouse is available, and these rules have failed for the minute.
  expect(await runAt(1 + 10 / 60, { completeMinutes: 1 })).toBe(2)
  expect(await historyOf(small)).toStrictEqual(['firing@1'])
  for (const { ruleId } of greedy) {
    expect(await evaluatedMinutes(ruleId)).toBe(0)
    expect(await rules.find(ruleId, null)).toMatchObject({ lastError: expect.stringContaining('not answered in time') })
  }

  // Two of the unanswered groups are tried in each minute, in turn. No statement measures them together with others.
  const tried = (): number[] => statements.splice(0).map((statement) => windowOf(statement) / minuteMs)
  tried()
  expect(await runAt(2)).toBe(3)
  expect(tried().filter((minutes) => minutes < 9)).toStrictEqual([7, 8])
  expect(await runAt(3)).toBe(4)
  expect(tried().filter((minutes) => minutes < 9)).toStrictEqual([5, 6])
  failWith(undefined)
  expect(await runAt(4)).toBe(5)
  for (const { ruleId } of greedy) expect(await historyOf(ruleId)).toStrictEqual(['firing@4'])
  expect((await rules.find(greedy[0]?.ruleId ?? '', null))?.lastError).toBeNull()
})

test('a rule that ClickHouse never answers keeps no other rule from firing early', async () => {
  const siteId = 'greedy and late'
  const large = await addRule(postgres, { siteId, at: noon, condition: { window: '7m', threshold: 0 } })
  const count = await addRule(postgres, { siteId, at: noon, condition: { window: '9m', threshold: 0 } })
  const { runAt, failWith } = rig(siteId)
  failWith(({ sql, params }) =>
    sql.includes('value_1') || Number(params.end) - Number(params.start) === 7 * minuteMs
      ? new ClickHouseError(241, '(total) memory limit exceeded: would use 8.10 GiB, maximum: 8.00 GiB')
      : undefined,
  )
  // The other group was answered: the rule has failed for this minute, and is told so.
  expect(await runAt(1)).toBe(2)
  expect(await rules.find(large.ruleId, null)).toMatchObject({
    lastError: expect.stringContaining('choose a shorter window'),
  })
  await sendEvents(siteId, [1.5])
  await runAt(2.2, { completeMinutes: 1 })
  expect(await historyOf(count.ruleId)).toStrictEqual(['firing@2'])
  expect(await historyOf(large.ruleId)).toStrictEqual([])
})

test('three workers tell of each transition once', async () => {
  const siteId = 'three'
  const rule = await addRule(postgres, { siteId, at: noon, condition: { threshold: 0, window: '1m' } })
  const { runAt, unitOf } = rig(siteId)
  const workers = [unitOf(), unitOf(), unitOf()]
  await sendEvents(siteId, [0.5, 2.5])
  for (const minute of [1, 2, 3, 4]) await Promise.all(workers.map((by) => runAt(minute, { by })))
  expect(await historyOf(rule.ruleId)).toStrictEqual(['firing@1', 'ok@2', 'firing@3', 'ok@4'])
  const { db } = postgres
  const deliveries = await db.selectFrom('deliveries').select('source').where('endpoint_id', '=', rule.ruleId).execute()
  expect(deliveries).toHaveLength(4)
})

test('a rule measures the events of its own environment, and percent operators the window before', async () => {
  const siteId = 'scoped'
  const dev = await addRule(postgres, { siteId, at: noon, environment: 'dev', condition: { threshold: 0 } })
  const rise = await addRule(postgres, {
    siteId,
    at: noon,
    condition: { operator: 'increases_by_percent', threshold: 100, window: '1m' },
  })
  const { runAt } = rig(siteId)
  await sendEvents(siteId, [0.5, 1.5, 2.2, 2.4])
  for (const minute of [1, 2, 3, 4]) await runAt(minute)
  expect(await historyOf(dev.ruleId)).toStrictEqual([])
  expect(await historyOf(rise.ruleId)).toStrictEqual(['firing@1', 'ok@2', 'firing@3', 'ok@4'])
})
