import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { ExportResource } from '@sluice/contracts/exports'
import { type ExportStore, exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery
let store: ExportStore

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  store = exportStore(query.postgres)
  await siteStore(query.postgres).register(['shop', 'blog'])
})

afterAll(async () => {
  await query.stop()
})

afterEach(async () => {
  await query.postgres.db.deleteFrom('exports').execute()
})

const post = (body: unknown, parts: { key?: string; headers?: Record<string, string> } = {}) =>
  query.request('/api/v1/exports', { method: 'POST', body, ...parts })

const plain = { site_id: 'shop', type: 'events', format: 'csv' }

async function createCohort(siteId: string): Promise<string> {
  const criteria = { type: 'and', conditions: [{ property: 'user_id', operator: 'exists' }] }
  const body = { site_id: siteId, name: 'everybody', criteria }
  const { body: answer } = await query.request('/api/v1/cohorts', { method: 'POST', body })
  return (answer.data as { cohort_id: string }).cohort_id
}

test('an export is accepted with 202 and handed to the workers', async () => {
  const before = Date.now()
  const { status, body } = await post(plain)
  expect(status).toBe(202)
  const created = body.data as ExportResource
  expect(created).toStrictEqual({
    export_id: expect.stringMatching(/^exp_/),
    site_id: 'shop',
    name: 'events',
    type: 'events',
    format: 'csv',
    compression: null,
    environment: 'prod',
    start_date: null,
    end_date: null,
    filter: null,
    cohort_id: null,
    metric: null,
    group_by: null,
    csv_safe: true,
    status: 'queued',
    rows: 0,
    bytes: 0,
    progress: 0,
    scheduled: null,
    created_at: expect.any(Number),
    finished_at: null,
    expires_at: null,
    error: null,
  })
  expect(created.created_at).toBeGreaterThanOrEqual(before)
  const [taken] = await store.leases.take(Date.now(), 1)
  expect(taken?.job).toMatchObject({
    exportId: created.export_id,
    siteId: 'shop',
    spec: { type: 'events', format: 'csv', environment: 'prod', csv_safe: true },
  })
})

test('every field is kept as it was sent', async () => {
  const cohortId = await createCohort('shop')
  const body = {
    ...plain,
    name: 'Käufer',
    start_date: 1,
    end_date: 2,
    environment: 'all',
    filter: [{ property: 'properties.plan', operator: 'equals', value: 'pro' }],
    cohort_id: cohortId,
    compression: 'zstd',
    csv_safe: false,
  }
  expect((await post(body)).body.data).toMatchObject(body)
  const stats = { site_id: 'shop', type: 'stats', format: 'json', metric: 'visitors', group_by: 'properties.plan' }
  expect((await post(stats)).body.data).toMatchObject(stats)
  const cohort = { site_id: 'shop', type: 'cohort', format: 'parquet', cohort_id: cohortId }
  expect((await post(cohort)).body.data).toMatchObject(cohort)
})

test('null is as good as leaving a field out', async () => {
  const { data } = (await post(plain)).body
  const { export_id: _, created_at: __, name: ___, ...record } = data as ExportResource
  const { status: ____, rows, bytes, progress, finished_at, expires_at, error, ...sent } = record
  const created = await post({ ...sent, name: null, csv_safe: null, environment: null })
  expect(created).toMatchObject({ status: 202, body: { data: { ...record, name: 'events' } } })
  expect([rows, bytes, progress, finished_at, expires_at, error]).toStrictEqual([0, 0, 0, null, null, null])
  const scheduled = { frequency: 'daily', next_run: null, paused: null }
  expect((await post({ ...plain, scheduled })).body.data).toMatchObject({ scheduled: { paused: false } })
})

test('the environment is that of the key unless the request names one', async () => {
  const key = await query.createKey({ scopes: ['stats:read'], environment: 'dev' })
  expect((await post(plain, { key })).body.data).toMatchObject({ environment: 'dev' })
})

describe('a schedule', () => {
  test('makes its first run at its time, at once if that is over or not given', async () => {
    const at = Date.now()
    const scheduled = { frequency: 'daily', next_run: at + 86_400_000 }
    const later = (await post({ ...plain, scheduled })).body.data as ExportResource
    expect(later).toMatchObject({ status: 'queued', scheduled: { ...scheduled, paused: false } })
    expect(await store.schedules.take(Date.now(), 10)).toStrictEqual([])

    const past = (await post({ ...plain, scheduled: { frequency: 'monthly', next_run: 0 } })).body.data
    const open = (await post({ ...plain, scheduled: { frequency: 'weekly' } })).body.data as ExportResource
    expect(open.scheduled?.next_run).toBeGreaterThanOrEqual(at)
    const taken = await store.schedules.take(Date.now(), 10)
    expect(taken.map(({ id }) => id)).toStrictEqual([(past as ExportResource).export_id, open.export_id])
    expect(await store.leases.take(Date.now(), 10)).toStrictEqual([])
  })

  test('may be paused from the beginning, and say where its first run begins', async () => {
    const scheduled = { frequency: 'hourly', next_run: 0, paused: true }
    expect((await post({ ...plain, start_date: 5, scheduled })).body.data).toMatchObject({ start_date: 5, scheduled })
    expect(await store.schedules.take(Date.now(), 10)).toStrictEqual([])
  })
})

test('an hourly schedule may count by minute', async () => {
  const body = { ...plain, type: 'stats', metric: 'visitors', group_by: 'minute', scheduled: { frequency: 'hourly' } }
  expect((await post(body)).status).toBe(202)
})

describe('a wrong body is refused with 400:', () => {
  const stats = { ...plain, type: 'stats', metric: 'visitors' }
  const hourly = { frequency: 'hourly' }
  test.each<[string, object]>([
    ['Missing required field: site_id', { ...plain, site_id: '' }],
    ['Missing required field: type', { ...plain, type: undefined }],
    ['Invalid field: filter must be a list of conditions', { ...plain, filter: '[]' }],
    ['Invalid field: type must be one of: events, users, sessions, stats, cohort', { ...plain, type: 'logs' }],
    ['Missing required field: format', { ...plain, format: undefined }],
    ['Missing required field: format', { ...plain, format: '' }],
    ['Invalid field: format must be one of: csv, json, ndjson, parquet', { ...plain, format: 'xlsx' }],
    ['Invalid field: name must not be blank', { ...plain, name: ' ' }],
    ['Invalid field: name exceeds maximum length of 256', { ...plain, name: 'a'.repeat(257) }],
    ['Missing required field: scheduled.frequency', { ...plain, scheduled: {} }],
    [
      'Invalid field: scheduled.frequency must be one of: hourly, daily, weekly, monthly',
      { ...plain, scheduled: { frequency: 'yearly' } },
    ],
    ['Invalid field: scheduled.next_run must be at least 0', { ...plain, scheduled: { ...hourly, next_run: -1 } }],
    [
      'Invalid field: scheduled.next_run must be Unix time in milliseconds, not in seconds',
      { ...plain, scheduled: { ...hourly, next_run: 1_767_225_600 } },
    ],
    ['Invalid field: scheduled.cron is not known', { ...plain, scheduled: { ...hourly, cron: '* * *' } }],
    ['Invalid field: scheduled must be an object', { ...plain, scheduled: 'daily' }],
    ['Invalid field: start_date must be before end_date', { ...plain, start_date: 5, end_date: 5 }],
    ['Invalid field: start_date must be before now', { ...plain, start_date: Date.UTC(2199, 0, 1) }],
    ['Invalid field: start_date must be a number', { ...plain, start_date: '5' }],
    ['Invalid field: environment must be one of: prod, dev, all', { ...plain, environment: 'test' }],
    ['Missing required field: filter.0.property', { ...plain, filter: [{ operator: 'exists' }] }],
    ['Missing required field: cohort_id', { ...plain, type: 'cohort' }],
    ['Missing required field: metric', { ...plain, type: 'stats' }],
    ['Invalid field: cohort_id is not allowed with type stats', { ...stats, cohort_id: 'coh_1' }],
    ['Invalid field: metric is allowed only with type stats', { ...plain, metric: 'visitors' }],
    ['Invalid field: group_by is allowed only with type stats', { ...plain, type: 'sessions', group_by: 'day' }],
    [
      'Invalid field: group_by must be one of: minute, hour, day, week, month, device_type, country, event_type, url, path, referrer_host, properties.<name>',
      { ...stats, group_by: 'x' },
    ],
    [
      'Invalid field: compression does not go with format parquet, which compresses by itself',
      { ...plain, format: 'parquet', compression: 'gzip' },
    ],
    ['Invalid field: compression must be one of: gzip, zstd', { ...plain, compression: 'brotli' }],
    ['Invalid field: csv_safe must be a boolean', { ...plain, csv_safe: 'no' }],
    [
      'Invalid field: end_date does not go with scheduled: each run has an end of its own',
      { ...plain, end_date: 5, scheduled: hourly },
    ],
    [
      'Invalid field: start_date does not go with scheduled stats: each run is of the period before it',
      { ...stats, start_date: 5, scheduled: hourly },
    ],
    ...(['daily', 'weekly', 'monthly'] as const).map((frequency): [string, object] => [
      `Invalid field: group_by must not be minute with scheduled.frequency ${frequency}: only hourly is short enough`,
      { ...stats, group_by: 'minute', scheduled: { frequency } },
    ]),
    ['Invalid field: columns is not known', { ...plain, columns: ['url'] }],
  ])('%s', async (error, body) => {
    const answer = await post(body)
    expect([answer.status, answer.body.error]).toStrictEqual([400, error])
  })
})

test('a type needs the scope of what it holds', async () => {
  const cohortId = await createCohort('shop')
  const bodies: [string, object][] = [
    ['stats:read', plain],
    ['stats:read', { ...plain, type: 'sessions' }],
    ['stats:read', { ...plain, type: 'stats', metric: 'visitors' }],
    ['cohorts:read', { ...plain, type: 'users' }],
    ['cohorts:read', { ...plain, type: 'cohort', cohort_id: cohortId }],
  ]
  for (const held of ['stats:read', 'cohorts:read'] as const) {
    const key = await query.createKey({ scopes: [held] })
    for (const [needed, body] of bodies) {
      const { status, body: answer } = await post(body, { key })
      const expected = held === needed ? [202, undefined] : [403, `Insufficient scope: requires ${needed}`]
      expect([status, answer.error]).toStrictEqual(expected)
    }
  }
  const writer = await query.createKey({ scopes: ['events:write'] })
  const refused = await post(plain, { key: writer })
  expect([refused.status, refused.body.error]).toStrictEqual([
    403,
    'Insufficient scope: requires stats:read or cohorts:read',
  ])
})

test('a site that the key is not bound to is 403, a cohort that is not of the site 404', async () => {
  const key = await query.createKey({ scopes: ['stats:read'], siteIds: ['shop'] })
  const foreign = await post({ ...plain, site_id: 'blog' }, { key })
  expect([foreign.status, foreign.body.error]).toStrictEqual([403, 'Key is not allowed for this site'])
  const cohortId = await createCohort('blog')
  for (const cohort_id of [cohortId, 'coh_none']) {
    const { status, body } = await post({ ...plain, cohort_id })
    expect([status, body.error]).toStrictEqual([404, 'Cohort not found'])
  }
  expect((await store.list('shop', ['events'], { limit: 1, offset: 0 })).total).toBe(0)
})

test('an export that is refused for its cohort registers no site', async () => {
  const key = await query.createKey({ scopes: ['stats:read'], siteIds: ['shop'] })
  const foreign = await post({ ...plain, site_id: 'new-site', cohort_id: 'coh_none' }, { key })
  expect([foreign.status, foreign.body.error]).toStrictEqual([403, 'Key is not allowed for this site'])
  const { status, body } = await post({ ...plain, site_id: 'new-site', cohort_id: 'coh_none' })
  expect([status, body.error]).toStrictEqual([404, 'Cohort not found'])
  expect(await siteStore(query.postgres).find('new-site')).toBeUndefined()
})

test('an Idempotency-Key makes one export of repeated requests', async () => {
  const headers = { 'Idempotency-Key': 'once' }
  const first = await post(plain, { headers })
  const again = await post(plain, { headers })
  expect(again.body).toStrictEqual(first.body)
  expect(again.headers.get('idempotency-replayed')).toBe('true')
  expect((await post({ ...plain, name: 'other' }, { headers })).status).toBe(409)
  expect((await store.list('shop', ['events'], { limit: 1, offset: 0 })).total).toBe(1)
})

describe('a site has at most', () => {
  const create = (n: number, parts: object) =>
    store.create(
      {
        exportId: `exp_${n}`,
        siteId: 'shop',
        keyId: 'key_1',
        name: 'one',
        spec: { type: 'events', format: 'csv', environment: 'prod', csv_safe: true },
        ...parts,
      },
      1,
    )

  test('100 unfinished exports of one key, and those that have ended do not count', async () => {
    const { export_id: first } = (await post(plain)).body.data as ExportResource
    const keyId = (await store.find(first, null))?.keyId ?? ''
    for (let n = 1; n < 100; n++) await create(n, { keyId })
    const { status, body } = await post(plain)
    expect([status, body.error]).toStrictEqual([
      409,
      'The key has 100 exports of this site that have not ended: wait, or delete some',
    ])
    expect((await post({ ...plain, site_id: 'blog' })).status).toBe(202)
    expect((await post({ ...plain, scheduled: { frequency: 'daily' } })).status).toBe(202)
    const other = await query.createKey({ scopes: ['stats:read'], siteIds: ['shop'] })
    expect((await post(plain, { key: other })).status).toBe(202)
    for (const oldest of await store.leases.take(Date.now(), 1)) await store.leases.fail(oldest, 'text', Date.now())
    expect((await post(plain)).status).toBe(202)
  })

  test('100 schedules', async () => {
    const scheduled = { frequency: 'daily', nextRun: 1, paused: false } as const
    for (let n = 0; n < 100; n++) await create(n, { scheduled })
    const { status, body } = await post({ ...plain, scheduled: { frequency: 'daily' } })
    expect([status, body.error]).toStrictEqual([
      409,
      'Site has 100 schedules of exports, the maximum: delete one first',
    ])
    expect((await post(plain)).status).toBe(202)
    expect((await post({ ...plain, site_id: 'blog', scheduled: { frequency: 'daily' } })).status).toBe(202)
  })
})
