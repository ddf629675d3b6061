import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Criteria } from '@sluice/contracts/conditions'
import { statsLimits } from '@sluice/contracts/stats'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { createMetrics } from '@sluice/runtime/metrics'
import { apiRequest } from '../../tests/support/api-request.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { allSitesKnown, hour, noon, openStatsDatabase, type StatsDatabase } from '../../tests/support/stats-database.ts'
import { previewAlertRoute } from './alerts/preview-alert.ts'
import { cohortAnalysisRoute } from './analytics/cohort-analysis.ts'
import { retentionRoute } from './analytics/retention.ts'
import { previewCohortRoute } from './cohorts/preview-cohort.ts'
import { analysisTimes } from './metrics.ts'
import { createErasureRoute } from './sites/create-erasure.ts'
import { readEventTimeRanges } from './sites/read-event-time-ranges.ts'
import { siteLookup } from './sites/site-lookup.ts'
import { eventsRoute } from './stats/events.ts'
import { funnelRoute } from './stats/funnel.ts'
import { liveRoute } from './stats/live.ts'
import { propertiesRoute } from './stats/properties.ts'
import { statsRoute } from './stats/stats.ts'
import { statsBatchRoute } from './stats/stats-batch.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** ClickHouse with a limit that is reached before the limits of the runner. */
const limited = (limit: object): Pick<ClickHouse, 'query'> => ({
  query: (sql, params, options) =>
    database.reader.query(sql, params, { ...options, settings: { ...options?.settings, ...limit } }),
})

const jsonOf = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

const requestStats = async (limit: object, query: Record<string, string> = {}): Promise<unknown> => {
  const siteId = await database.siteWith(Array.from({ length: 100 }, () => ({ at: 0, session_id: 's' })))
  const range = { start_date: String(noon), end_date: String(noon + hour) }
  const { handle } = statsRoute({ eventReader: queryReader(limited(limit)), ...allSitesKnown() })
  return handle(apiRequest({ query: { site_id: siteId, metric: 'event_count', ...range, ...query } }))
}

describe('an analysis that is too large', () => {
  const tooLarge = {
    code: 'query_too_large',
    message:
      'Invalid field: start_date asks for more than one answer may read: ask for a shorter range or fewer groups',
  }

  test('is refused with 400 beyond the rows that may be read', async () => {
    await expect(requestStats({ max_rows_to_read: '10' }, { metric: 'unique_users' })).rejects.toMatchObject(tooLarge)
  })

  test('is refused with 400 beyond the memory of one statement', async () => {
    const query = { metric: 'bounce_rate', group_by: 'path' }
    await expect(requestStats({ max_memory_usage: '1000' }, query)).rejects.toMatchObject(tooLarge)
  })

  test('names the limit of a page of events whose result has too many bytes, and the range elsewhere', async () => {
    const siteId = await database.siteWith([{ at: 0 }, { at: 0 }])
    const { handle } = eventsRoute({
      eventReader: queryReader(limited({ max_result_bytes: '10' })),
      ...allSitesKnown(),
    })
    await expect(handle(apiRequest({ receivedAt: noon + 1, query: { site_id: siteId } }))).rejects.toMatchObject({
      code: 'query_too_large',
      message: 'Invalid field: limit is too high: the answer would be too large, so use a lower limit',
    })
    await expect(requestStats({ max_result_bytes: '1' })).rejects.toMatchObject(tooLarge)
  })

  test.each([
    ['the properties', propertiesRoute],
    ['the live view', liveRoute],
  ])('of a request without a range, %s, names the site', async (_, route) => {
    const siteId = await database.siteWith([{ at: 0 }, { at: 0 }])
    const eventReader = queryReader(limited({ max_rows_to_read: '1' }))
    const { handle } = route({ eventReader, ...allSitesKnown() })
    await expect(handle(apiRequest({ receivedAt: noon + 1, query: { site_id: siteId } }))).rejects.toMatchObject({
      code: 'query_too_large',
      message:
        'Invalid field: site_id has more recent events than one answer may read: ask again later, or for one environment',
    })
  })

  test('of the times of several sites names the limit, and of one site is 503: the request can not ask for less', async () => {
    const siteId = await database.siteWith([{ at: 0 }, { at: 0 }])
    const eventReader = queryReader(limited({ max_result_bytes: '1' }))
    const read = (siteIds: readonly string[]) => readEventTimeRanges(siteIds, eventReader, apiRequest({}))
    await expect(read([siteId, 'other'])).rejects.toMatchObject({
      code: 'query_too_large',
      message: 'Invalid field: limit asks for more events than one answer may read: ask for fewer sites',
    })
    await expect(read([siteId])).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 })
  })

  test('and that the request has no field for is 503: the look-up of a site, the hash of an erasure', async () => {
    const siteId = await database.siteWith([{ at: 0 }, { at: 0 }])
    const eventReader = queryReader(limited({ max_result_bytes: '1' }))
    const unregistered = {
      find: () => Promise.resolve(undefined),
      siteDeletedAt: () => Promise.resolve(undefined),
      register: () => Promise.resolve(),
      registerFor: () => Promise.reject(new Error('no site is registered')),
    }
    const lookup = siteLookup(unregistered, eventReader, { autoRegister: true })
    await expect(lookup.find(siteId, apiRequest({}))).rejects.toMatchObject({ code: 'unavailable' })
    const settings = { name: '', timezone: 'UTC', conversion_event: null, retention_days: null }
    const { handle } = createErasureRoute({
      sites: { find: () => Promise.resolve({ siteId, settings, createdAt: 0 }) },
      erasures: { create: () => Promise.reject(new Error('no erasure is made')) },
      // The statement reads no table, so that no setting makes it too large.
      eventReader: queryReader({
        query: () => Promise.reject(new ClickHouseError(241, 'Query memory limit exceeded')),
      }),
      clock: exactClock,
    })
    const sent = { bytes: jsonOf({ user_id: 'u' }), type: 'application/json' }
    await expect(handle(apiRequest({ params: { site_id: siteId }, body: sent }))).rejects.toMatchObject({
      code: 'unavailable',
    })
  })

  test('is refused with 400 for more pairs of types and groups than a breakdown may hold', async () => {
    const count = statsLimits.entriesMax + 1
    await database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at, url)
       SELECT 'pairs', 'prod', 'view', at, toString(number), at, toString(number)
       FROM (SELECT number, fromUnixTimestamp64Milli({noon:Int64}, 'UTC') AS at FROM numbers({count:UInt32}))`,
      { params: { noon, count } },
    )
    const parameters = { site_id: 'pairs', metric: 'event_count_by_type', group_by: 'url' }
    await expect(database.queryStats(parameters)).rejects.toMatchObject({
      code: 'invalid_field',
      message:
        'Invalid field: group_by must make at most 100000 pairs with event types: ask for a shorter range, longer buckets or a lower limit',
    })
    // Without types there are 100 groups, and one of all others.
    const { breakdown } = await database.queryStats({ ...parameters, metric: 'event_count' })
    expect(breakdown).toHaveLength(101)
  })
})

describe('the statements of a request', () => {
  /** ClickHouse that sleeps for nine seconds before a statement about this type. */
  const slow = (eventType: string): Pick<ClickHouse, 'query'> => ({
    query: async (sql, params, options) => {
      const sleeps = Object.values(params ?? {}).includes(eventType) ? 3 : 0
      for (let n = 0; n < sleeps; n += 1) await database.reader.query('SELECT sleep(3)', {}, options)
      return database.reader.query(sql, params, options)
    },
  })

  test('are given up with 503 when they take too long together, those of a batch too', async () => {
    const siteId = await database.siteWith([{ at: 0 }])
    const metrics = createMetrics()
    const deps = {
      eventReader: { ...queryReader(slow('type 4'), { metrics }), requestMsMax: 6_000 },
      ...allSitesKnown(),
    }
    const range = { start_date: noon, end_date: noon + hour }
    const queries = Array.from({ length: 5 }, (_, n) => ({
      site_id: siteId,
      metric: 'event_count',
      ...range,
      event_type: `type ${n}`,
    }))
    const { handle } = statsBatchRoute(deps)
    const query = { site_id: siteId, metric: 'event_count', event_type: 'type 4' }
    const [answer] = await Promise.all([
      handle(apiRequest({ body: { bytes: jsonOf({ queries }), type: 'application/json' } })),
      expect(statsRoute(deps).handle(apiRequest({ query }))).rejects.toMatchObject({
        code: 'unavailable',
        internal: 'the analyses of a request took 6000 ms',
      }),
    ])
    expect(answer.data).toMatchObject({
      results: [
        ...Array.from({ length: 4 }, () => ({ success: true })),
        { success: false, status: 503, error: 'Service temporarily unavailable' },
      ],
    })
    expect(await metrics.metrics()).toContain('\nsluice_query_timeouts_total 2\n')
  })

  /** Counts the statements, and finds a site only when the time of its request is over. */
  function lateSite(siteId: string) {
    const sent: string[] = []
    const counted: Pick<ClickHouse, 'query'> = {
      query: (sql, params, options) => {
        sent.push(sql)
        return database.reader.query(sql, params, options)
      },
    }
    const { sites, ...known } = allSitesKnown()
    const find = async (id: string, { signal }: { signal: AbortSignal }) => {
      if (id === siteId && !signal.aborted) await once(signal, 'abort')
      return sites.find()
    }
    const cohort = { cohortId: 'coh_1', siteId, settings: { name: 'Germany', description: null, criteria } }
    const cohorts = { find: () => Promise.resolve({ ...cohort, createdAt: Date.now(), updatedAt: Date.now() }) }
    const eventReader = { ...queryReader(counted), requestMsMax: 100 }
    return { sent, deps: { eventReader, ...known, sites: { find }, cohorts } }
  }

  const site_id = 'late'
  const criteria: Criteria = { type: 'and', conditions: [{ property: 'country', operator: 'equals', value: 'DE' }] }
  const get = { query: { site_id } }
  const post = (body: object) => ({ body: { bytes: jsonOf({ site_id, ...body }), type: 'application/json' } })
  const condition = { metric: 'event_count', operator: 'greater_than', threshold: 1, window: '5m' }

  test.each([
    ['statistics', statsRoute, { query: { site_id, metric: 'event_count' } }],
    ['the live view', liveRoute, get],
    ['properties', propertiesRoute, get],
    ['events', eventsRoute, get],
    ['a funnel', funnelRoute, post({ steps: [{ event_type: 'a' }, { event_type: 'b' }] })],
    ['retention', retentionRoute, get],
    ['the weeks of a cohort', cohortAnalysisRoute, { query: { site_id, cohort_id: 'coh_1', weeks: '2' } }],
    ['a preview of a cohort', previewCohortRoute, post({ criteria })],
    ['a preview of an alert rule', previewAlertRoute, post({ condition })],
  ])('share their time with the look-up of the site: %s', async (_, route, parts) => {
    const { sent, deps } = lateSite(site_id)
    const request = apiRequest({ receivedAt: noon, ...parts })
    await expect(route(deps).handle(request)).rejects.toMatchObject({
      code: 'unavailable',
      internal: 'the analyses of a request took 100 ms',
    })
    expect(sent).toStrictEqual([])
  })

  test('of a batch share their time with the look-ups of all its sites', async () => {
    const { sent, deps } = lateSite(site_id)
    const queries = ['known', site_id].map((id) => ({ site_id: id, metric: 'event_count' }))
    const answer = await statsBatchRoute(deps).handle(
      apiRequest({ receivedAt: noon, body: { bytes: jsonOf({ queries }), type: 'application/json' } }),
    )
    expect(answer.data).toMatchObject({ results: [{ status: 503 }, { status: 503 }] })
    expect(sent).toStrictEqual([])
  })
})

describe('the time of a question', () => {
  /** How many questions the histogram has, by their metric. */
  async function timesOf(clickHouse: Pick<ClickHouse, 'query'>, requestMsMax = 60_000): Promise<string[]> {
    const metrics = createMetrics()
    const observe = analysisTimes(metrics)
    const siteId = await database.siteWith([{ at: 0, session_id: 's' }])
    const { handle } = statsRoute({
      eventReader: {
        ...queryReader(clickHouse),
        requestMsMax,
        observeAnalysis: (kind, seconds) => {
          expect(seconds).toBeGreaterThan(0)
          observe(kind, seconds)
        },
      },
      ...allSitesKnown(),
    })
    const range = { start_date: String(noon), end_date: String(noon + hour) }
    const query = { site_id: siteId, metric: 'unique_users', ...range }
    await Promise.resolve(handle(apiRequest({ query }))).catch(() => undefined)
    return (await metrics.metrics()).match(/^sluice_query_question_seconds_count.* [1-9]\d*$/gm) ?? []
  }

  test('is noted by its metric', async () => {
    expect(await timesOf(database.reader)).toStrictEqual([
      'sluice_query_question_seconds_count{metric="unique_users"} 1',
    ])
  })

  test('has a series of each kind from the start, which its first value increases', async () => {
    const metrics = createMetrics()
    analysisTimes(metrics)
    const text = await metrics.metrics()
    for (const kind of ['event_count', 'funnel'])
      expect(text).toContain(`sluice_query_question_seconds_count{metric="${kind}"} 0\n`)
  })

  test('is told apart up to the 60 s that an analysis may take', async () => {
    const metrics = createMetrics()
    analysisTimes(metrics)('event_count', 45)
    const buckets = (await metrics.metrics()).match(/^sluice_query_question_seconds_bucket.*metric="event_count".*$/gm)
    expect(buckets?.slice(-3).map((line) => / (\d+)$/.exec(line)?.[1])).toStrictEqual(['0', '1', '1'])
  })

  test('is noted for one that took too long', async () => {
    const sleeping: Pick<ClickHouse, 'query'> = {
      query: (_, params, options) => database.reader.query('SELECT sleep(3)', params, options),
    }
    const times = await timesOf(sleeping, 1_000)
    expect(times).toStrictEqual(['sluice_query_question_seconds_count{metric="unique_users"} 1'])
  })

  test('is noted for each one of a batch', async () => {
    const kinds: string[] = []
    const siteId = await database.siteWith([{ at: 0 }])
    const { handle } = statsBatchRoute({
      eventReader: { ...queryReader(database.reader), observeAnalysis: (kind) => kinds.push(kind) },
      ...allSitesKnown(),
    })
    const queries = ['event_count', 'bounce_rate'].map((metric) => ({ site_id: siteId, metric }))
    await handle(apiRequest({ body: { bytes: jsonOf({ queries }), type: 'application/json' } }))
    expect(kinds.sort()).toStrictEqual(['bounce_rate', 'event_count'])
  })

  test('is not noted for one that was refused', async () => {
    expect(await timesOf(limited({ max_memory_usage: '1000' }))).toStrictEqual([])
  })
})
