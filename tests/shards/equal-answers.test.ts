import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Criteria, Filter } from '@sluice/contracts/conditions'
import { type Comparison, groupFields, type Grouping, type Metric, metrics } from '@sluice/contracts/stats'
import { measureAlertSeries } from '@sluice/event-store/alerts/alert-series'
import { measureBatch } from '@sluice/event-store/alerts/measure-batch'
import type { QueryRunner, Statement } from '@sluice/event-store/clickhouse/query-runner'
import { analysisStatement } from '@sluice/event-store/cohorts/analysis-statement'
import { measureCohort } from '@sluice/event-store/cohorts/measure-cohort'
import { eventTimeRanges } from '@sluice/event-store/event-time-ranges'
import { countCopies } from '@sluice/event-store/events/count-copies'
import { listEvents } from '@sluice/event-store/events/list-events'
import type { ExportRows } from '@sluice/event-store/exports/row-formats'
import type { ExportScope } from '@sluice/event-store/exports/scope'
import { sessionExportRows } from '@sluice/event-store/exports/sessions'
import { eventSource } from '@sluice/event-store/exports/source'
import { userExportRows } from '@sluice/event-store/exports/users'
import { funnelStatement } from '@sluice/event-store/funnel/funnel-statement'
import { hasEvents } from '@sluice/event-store/has-events'
import { readLive } from '@sluice/event-store/live/read-live'
import { listObservedProperties } from '@sluice/event-store/properties/list-observed-properties'
import { retentionStatement } from '@sluice/event-store/retention/retention-statement'
import { evaluateStats } from '@sluice/event-store/stats/evaluate-stats'
import { measureGroups } from '@sluice/event-store/stats/measure-groups'
import { measureSessions } from '@sluice/event-store/stats/measure-sessions'
import { planStats, type StatsSpec } from '@sluice/event-store/stats/spec'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { dayMs, now, openTwinStores, type Readers, type TwinStores } from './stores.ts'

/** `SLUICE_SHARDS_EVENTS=1000000 npm test -- tests/shards` compares the answers about a million. */
const events = Number(process.env.SLUICE_SHARDS_EVENTS ?? 20_000)
const longMs = 600_000 + events

let cluster: ClickHouseCluster
let stores: TwinStores

beforeAll(async () => {
  cluster = await startClickHouseCluster()
  stores = await openTwinStores(cluster, events)
}, longMs)

afterAll(async () => {
  await stores.drop()
  await cluster.stop()
})

const { signal } = new AbortController()
const runnerOf = ({ events: reader }: Readers): QueryRunner =>
  reader.runnerFor({ key: 'test', signal, priority: 'interactive' })

async function expectEqual(ask: (runner: QueryRunner, readers: Readers) => Promise<unknown>): Promise<unknown> {
  const one = await ask(runnerOf(stores.one), stores.one)
  const sharded = await ask(runnerOf(stores.sharded), stores.sharded)
  expect(sharded).toStrictEqual(one)
  return one
}

/** The rows of a statement without an order. */
const rowsOf = (statement: Statement) => async (runner: QueryRunner) => {
  const { rows } = await runner.query(statement)
  return rows.map((row) => JSON.stringify(row)).sort()
}

const scope = { siteId: 'site', environment: 'all', start: now - 90 * dayMs + 1, end: now - dayMs } as const
const byPlan: Filter = [{ property: 'properties.plan', operator: 'equals', value: 'pro' }]
const byUser: Filter = [{ property: 'user.company', operator: 'in', value: ['1', '2', '3'] }]
const buyers: Criteria = {
  type: 'and',
  scope: 'user',
  conditions: [
    { property: 'event_type', operator: 'equals', value: 'purchase' },
    { property: 'user.plan', operator: 'equals', value: 'pro' },
  ],
}

test('the stores are not empty, and the shards share the events', async () => {
  const { rows } = await runnerOf(stores.sharded).query<{ events: number }>({
    sql: 'SELECT count() AS events FROM events GROUP BY shardNum()',
    params: {},
  })
  expect(rows).toHaveLength(2)
  expect(rows.reduce((sum, row) => sum + row.events, 0)).toBe(events)
})

describe('stats', () => {
  const groupings: readonly (Grouping | undefined)[] = [
    undefined,
    'hour',
    'day',
    'month',
    ...groupFields,
    'properties.n',
  ]
  const filters: readonly Partial<StatsSpec>[] = [
    {},
    { conditions: byPlan },
    { conditions: byUser, filters: { country: 'DE' } },
  ]
  const comparisons: readonly (Comparison | undefined)[] = [undefined, 'previous_period']

  test.each(metrics)(
    '%s in every grouping, with every kind of filter',
    async (metric: Metric) => {
      for (const [index, groupBy] of groupings.entries()) {
        const compare = comparisons[index % comparisons.length]
        // Each grouping is combined with another filter for the next metric; in a long run, with every filter.
        const turn = (index + metrics.indexOf(metric)) % filters.length
        for (const filter of events > 100_000 ? filters : filters.slice(turn, turn + 1)) {
          const spec: StatsSpec = {
            ...scope,
            ...(groupBy === 'hour' && { start: now - 20 * dayMs }),
            metric,
            timeZone: 'Europe/Berlin',
            limit: 7,
            ...(groupBy !== undefined && { groupBy }),
            ...(compare !== undefined && { compare }),
            ...filter,
          }
          await expectEqual((runner) => evaluateStats(spec, runner))
        }
      }
    },
    longMs,
  )

  test(
    'estimates read the same samples',
    async () => {
      const sampled = { eventsMin: 100, sampleFactor: 4, sampleMin: 10 }
      for (const metric of ['avg_session_duration', 'bounce_rate', 'conversion_rate'] as const) {
        await expectEqual((runner) => measureSessions(planStats({ ...scope, metric }), runner, sampled))
      }
      const leading = { ...sampled, sampleMin: 1, groupsMin: 5, charactersMax: 24_576 }
      for (const metric of ['unique_users', 'unique_sessions', 'visitors'] as const) {
        await expectEqual((runner) => measureGroups(planStats({ ...scope, metric, groupBy: 'path' }), runner, leading))
      }
    },
    longMs,
  )
})

test(
  'lists of events, page by page',
  async () => {
    for (const conditions of [[], byPlan, byUser]) {
      await expectEqual(async (runner) => {
        const first = await listEvents({ ...scope, conditions, before: undefined, limit: 40 }, runner)
        return [first, await listEvents({ ...scope, conditions, before: first.next, limit: 40 }, runner)]
      })
    }
  },
  longMs,
)

test(
  'live, observed properties, copies, and whether a site has events',
  async () => {
    for (const conditions of [[], byUser]) {
      await expectEqual((runner) => readLive({ siteId: 'site', environment: 'all', now, conditions }, runner))
    }
    // The environment `dev` has fewer events than are searched for frequent properties.
    await expectEqual((runner) =>
      listObservedProperties({ siteId: 'site', environment: 'dev', now: now - 20 * dayMs }, runner),
    )
    await expectEqual((runner) =>
      countCopies({ siteId: 'site', start: scope.start, end: scope.end, idPrefix: 'e1', limit: 1_000_000 }, runner),
    )
    expect(await expectEqual((runner) => hasEvents('site', runner))).toBe(true)
    expect(await expectEqual((runner) => hasEvents('none', runner))).toBe(false)
    expect(await expectEqual((runner) => hasEvents('site', runner, now + 30 * dayMs))).toBe(false)
  },
  longMs,
)

test(
  'first and last events of sites, small and large',
  async () => {
    for (const rowsMax of [0, 1_000_000_000]) {
      await expectEqual((runner) => eventTimeRanges(['site', 'other', 'none'], runner, { rowsMax }))
    }
  },
  longMs,
)

test(
  'cohorts, retention and funnels',
  async () => {
    const spec = { siteId: 'site', environment: 'all', now } as const
    const starts = Array.from({ length: 12 }, (_, index) => Date.UTC(2026, 0, 12) - (11 - index) * 7 * dayMs)
    await expectEqual((runner) => measureCohort({ ...spec, criteria: buyers }, runner))
    await expectEqual(rowsOf(analysisStatement({ ...spec, criteria: buyers, weeks: 8 })))
    for (const actor of ['user', 'visitor'] as const) {
      await expectEqual(rowsOf(retentionStatement({ ...spec, starts, latest: now, mode: 'on', of: actor })))
      const steps = [{ event_type: 'view' }, { event_type: 'cart', conditions: byUser }, { event_type: 'purchase' }]
      await expectEqual(rowsOf(funnelStatement({ ...scope, steps, windowMs: 7 * dayMs, of: actor })))
    }
    await expectEqual(
      rowsOf(retentionStatement({ ...spec, starts, latest: now, mode: 'on', of: 'user', criteria: buyers })),
    )
  },
  longMs,
)

test(
  'alerts, over one window and many',
  async () => {
    const spec = { siteId: 'site', environment: 'all', windowMs: 3_600_000 } as const
    const options = { comparesPrevious: true, distinguishesNoData: true }
    for (const metric of metrics) {
      await expectEqual((runner) =>
        measureAlertSeries({ ...spec, metric, filter: byUser }, { start: now - dayMs, end: now }, options, runner),
      )
    }
    const groups = (['event_count', 'unique_users', 'visitors'] as const).map((metric) => ({
      spec: { ...spec, metric },
      options,
    }))
    await expectEqual((runner) => measureBatch(groups, now, runner))
  },
  longMs,
)

describe('exports', () => {
  const everything: ExportScope = {
    siteId: 'site',
    environment: 'all',
    start: undefined,
    end: undefined,
    receivedFrom: undefined,
    receivedUntil: now + 1,
    filter: [],
    cohort: undefined,
  }
  const narrowed: ExportScope = {
    ...everything,
    start: scope.start,
    end: scope.end,
    filter: byUser,
    cohort: { criteria: buyers, now },
  }
  const read = async (rows: ExportRows, { exports }: Readers): Promise<string> => {
    const { bytes } = await exports.read(rows, { format: 'csv', isCsvSafe: true }, signal)
    return text(Readable.from(bytes))
  }

  test.each([
    ['everything', everything],
    ['a filter and a cohort', narrowed],
  ])(
    'of events, users and sessions: %s',
    async (_, exported) => {
      await expectEqual(async (runner, readers) => {
        const files: [unknown, number, string][] = []
        for await (const { rows, until, progress } of eventSource(exported, runner, {
          eventsMax: Math.ceil(events / 5),
        }).slices(undefined)) {
          files.push([until, progress, await read(rows, readers)])
        }
        return files
      })
      await expectEqual((_runner, readers) => read(userExportRows(exported), readers))
      await expectEqual((_runner, readers) => read(sessionExportRows(exported), readers))
    },
    longMs,
  )
})

test(
  'a shard that is unavailable makes questions fail, and the ready check',
  async () => {
    await stores.sharded.events.checkSchema()
    await stores.sharded.events.check()
    const [, second] = cluster.servers
    await second?.kill()
    try {
      await expect(hasEvents('site', runnerOf(stores.sharded))).rejects.toMatchObject({ code: 'unavailable' })
      await expect(evaluateStats({ ...scope, metric: 'event_count' }, runnerOf(stores.sharded))).rejects.toMatchObject({
        code: 'unavailable',
      })
      await expect(stores.sharded.events.check()).rejects.toMatchObject({ code: 'unavailable' })
    } finally {
      await second?.start()
    }
    await stores.sharded.events.check()
  },
  longMs,
)
