import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { ExportResource, ExportRun, ExportSpec } from '@sluice/contracts/exports'
import { type ExportStore, exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
import { newId } from '@sluice/runtime/ids'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { finishExport } from '../../../tests/support/finished-export.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery
let store: ExportStore
/** Sees exports of events, sessions and stats of the site `shop`. */
let own: string

const hourMs = 3_600_000

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  store = exportStore(query.postgres)
  await siteStore(query.postgres).register(['shop', 'blog', 'empty'])
  own = await query.createKey({ scopes: ['stats:read'], siteIds: ['shop'] })
})

afterAll(async () => {
  await query.stop()
})

afterEach(async () => {
  await query.postgres.db.deleteFrom('exports').execute()
  for await (const { name } of query.blobs.list('')) await query.blobs.remove([name])
})

const path = (exportId: string, more = '') => `/api/v1/exports/${exportId}${more}`

async function added(spec: Partial<ExportSpec> = {}, site = 'shop', at = Date.now()): Promise<string> {
  return (await addExport(store, { site, spec }, at)).exportId
}

async function addedSchedule(spec: Partial<ExportSpec> = {}): Promise<string> {
  const scheduled = { frequency: 'hourly', nextRun: 0, paused: false } as const
  return (await addExport(store, { site: 'shop', spec, scheduled }, Date.now())).exportId
}

/** Makes a run of a schedule, as the worker does. */
async function makeRun(scheduleId: string, at: number, spec: Partial<ExportSpec> = {}): Promise<string> {
  const due = await store.schedules.take(at, 100)
  const lease = due.find(({ id }) => id === scheduleId)
  if (!lease) throw new Error(`${scheduleId} is not due`)
  const run = {
    exportId: newId('exp'),
    spec: { type: 'events', format: 'csv', environment: 'prod', csv_safe: true, ...spec } as const,
    receipt: spec.type === undefined ? { firstFrom: at - hourMs, completeUntil: at } : null,
    nextRun: at + hourMs,
  }
  await store.createRun(lease, run, at)
  await store.schedules.release(lease, at + hourMs, { isProgress: true })
  return run.exportId
}

async function read(exportId: string): Promise<ExportResource> {
  return (await query.request(path(exportId))).body.data as ExportResource
}

const put = (exportId: string, body: unknown, key?: string) =>
  query.request(path(exportId), { method: 'PUT', body, ...(key === undefined ? {} : { key }) })

describe('GET /api/v1/exports', () => {
  async function list(more: string, key?: string) {
    const { body } = await query.request(`/api/v1/exports?site_id=shop${more}`, key === undefined ? {} : { key })
    const { exports, ...page } = body.data as { exports: ExportResource[] }
    return { ids: exports.map(({ export_id }) => export_id), ...page }
  }

  test('lists a site’s exports, newest first, in pages, without the runs of schedules', async () => {
    const first = await added({}, 'shop', 1)
    const second = await added({}, 'shop', 2)
    await added({}, 'blog')
    const schedule = await addedSchedule()
    await makeRun(schedule, Date.now())
    expect(await list('')).toStrictEqual({ ids: [schedule, second, first], total: 3, limit: 50, offset: 0 })
    expect(await list('&limit=1&offset=1', own)).toStrictEqual({ ids: [second], total: 3, limit: 1, offset: 1 })
  })

  test('holds the types that the key may read', async () => {
    const events = await added({ type: 'events' }, 'shop', 5)
    const sessions = await added({ type: 'sessions' }, 'shop', 4)
    const stats = await added({ type: 'stats', metric: 'visitors' }, 'shop', 3)
    const users = await added({ type: 'users' }, 'shop', 2)
    const cohort = await added({ type: 'cohort', cohort_id: 'coh_1' }, 'shop', 1)
    const reader = await query.createKey({ scopes: ['cohorts:read'], siteIds: ['shop'] })
    expect((await list('', own)).ids).toStrictEqual([events, sessions, stats])
    expect(await list('', reader)).toMatchObject({ ids: [users, cohort], total: 2 })
    expect((await list('')).ids).toHaveLength(5)
    for (const [key, hidden] of [
      [own, [users, cohort]],
      [reader, [events, sessions, stats]],
    ] as const) {
      for (const exportId of hidden) expect((await query.request(path(exportId), { key })).status).toBe(404)
    }
  })

  test.each([
    ['', 400, 'Missing required field: site_id'],
    ['?site_id=shop&limit=0', 400, 'Invalid field: limit must be at least 1'],
    ['?site_id=shop&status=queued', 400, 'Invalid field: status is not a known parameter'],
    ['?site_id=blog', 404, 'Site not found'],
    ['?site_id=nobody', 404, 'Site not found'],
  ])('refuses %s with %i', async (parameters, status, error) => {
    const answer = await query.request(`/api/v1/exports${parameters}`, { key: own })
    expect([answer.status, answer.body.error]).toStrictEqual([status, error])
  })
})

test('an export of another site, of another type and an absent one get the same answer from every operation', async () => {
  const hidden = [await added({}, 'blog'), await added({ type: 'users' }), 'exp_none']
  for (const [method, more, body] of [
    ['GET', '', undefined],
    ['PUT', '', { name: 'renamed' }],
    ['DELETE', '', undefined],
    ['GET', '/runs', undefined],
    ['GET', '/download', undefined],
  ] as const) {
    for (const exportId of hidden) {
      const answer = await query.request(path(exportId, more), { method, body, key: own })
      expect([answer.status, answer.body.error]).toStrictEqual([404, 'Export not found'])
    }
  }
  const names = await query.postgres.db.selectFrom('exports').select('name').execute()
  expect(names).toStrictEqual([{ name: 'all events' }, { name: 'all events' }])
})

test('GET /api/v1/exports/{export_id} shows an export from its creation to its end', async () => {
  const exportId = await added()
  expect(await read(exportId)).toMatchObject({ status: 'queued', rows: 0, finished_at: null, expires_at: null })
  const at = Date.now()
  const [lease] = await store.leases.take(at, 1)
  if (!lease) throw new Error('nothing was taken')
  await store.beginFile(lease, { object: 'exports/1', uploadId: 'u' })
  const part = { n: 1, etag: 'e', bytes: 9 }
  await store.recordParts(lease, { parts: [part], afterKey: [1, 'evt', 'prod'], rows: 7, progress: 12.5 })
  expect(await read(exportId)).toMatchObject({ status: 'processing', rows: 7, progress: 12.5 })
  await store.leases.fail(lease, 'The cohort was deleted', at)
  expect(await read(exportId)).toMatchObject({ status: 'failed', error: 'The cohort was deleted', finished_at: at })
})

describe('PUT /api/v1/exports/{export_id}', () => {
  test('changes the name, and repeats the site', async () => {
    const exportId = await added()
    const before = await read(exportId)
    const { status, body } = await put(exportId, { site_id: 'shop', name: 'renamed' }, own)
    expect([status, body.data]).toStrictEqual([200, { ...before, name: 'renamed' }])
    expect((await put(exportId, {})).body.data).toStrictEqual(body.data)
  })

  test('changes, pauses and continues a schedule', async () => {
    const exportId = await addedSchedule()
    const next = Date.now() + hourMs
    const changes: [object, object][] = [
      [{ paused: true }, { frequency: 'hourly', next_run: 0, paused: true }],
      [{ frequency: 'weekly' }, { frequency: 'weekly', next_run: 0, paused: true }],
      [{ next_run: next }, { frequency: 'weekly', next_run: next, paused: true }],
      [{}, { frequency: 'weekly', next_run: next, paused: true }],
    ]
    for (const [scheduled, expected] of changes) {
      expect((await put(exportId, { scheduled })).body.data).toMatchObject({ scheduled: expected })
    }
    expect(await store.schedules.take(next, 1)).toStrictEqual([])
    await put(exportId, { scheduled: { paused: false } })
    expect(await store.schedules.take(next, 1)).toHaveLength(1)
  })

  test('keeps a schedule that counts by minute hourly', async () => {
    const exportId = await addedSchedule({ type: 'stats', metric: 'visitors', group_by: 'minute' })
    const daily = await put(exportId, { scheduled: { frequency: 'daily' } })
    expect([daily.status, daily.body.error]).toStrictEqual([
      400,
      'Invalid field: scheduled.frequency must be hourly, because the export counts by minute',
    ])
    expect((await put(exportId, { scheduled: { frequency: 'hourly', paused: true } })).status).toBe(200)
  })

  test('leaves a schedule to the worker that makes a run, when nothing of it is changed', async () => {
    const exportId = await addedSchedule()
    const [lease] = await store.schedules.take(Date.now(), 1)
    if (!lease) throw new Error('nothing was taken')
    await put(exportId, { name: 'renamed', scheduled: {} })
    await store.schedules.release(lease, null, { isProgress: true })
  })

  test.each<[string, object]>([
    ["Invalid field: site_id can't be changed", { site_id: 'blog' }],
    ['Invalid field: name must not be blank', { name: ' ' }],
    ['Invalid field: name must not be empty', { name: '' }],
    ['Invalid field: format is not known', { format: 'json' }],
    ['Invalid field: scheduled.paused must be a boolean', { scheduled: { paused: 1 } }],
    [
      'Invalid field: scheduled can be changed only for an export that was created with a schedule',
      { scheduled: { paused: true } },
    ],
  ])('refuses with 400: %s', async (error, body) => {
    const answer = await put(await added(), body)
    expect([answer.status, answer.body.error]).toStrictEqual([400, error])
  })
})

describe('DELETE /api/v1/exports/{export_id}', () => {
  const remove = (exportId: string) => query.request(path(exportId), { method: 'DELETE' })
  const blobNames = async () => {
    const names: string[] = []
    for await (const { name } of query.blobs.list('')) names.push(name)
    return names
  }

  test('removes the record and its file', async () => {
    const kept = await added({}, 'blog')
    const exportId = await added()
    await finishExport({ exports: store, blobs: query.blobs }, exportId, { content: Buffer.from('a') })
    expect(await blobNames()).toContain(`exports/${exportId}`)
    const { status, body } = await remove(exportId)
    expect([status, body]).toStrictEqual([200, { success: true, timestamp: expect.any(Number) }])
    expect(await blobNames()).not.toContain(`exports/${exportId}`)
    expect((await remove(exportId)).status).toBe(404)
    expect((await query.request(path(exportId))).status).toBe(404)
    expect((await query.request(path(kept))).status).toBe(200)
  })

  test('ends one that is being written, and drops what is written of it', async () => {
    const exportId = await added()
    const [lease] = await store.leases.take(Date.now(), 1)
    if (!lease) throw new Error('nothing was taken')
    const upload = await query.blobs.createMultipartUpload('exports/1')
    await store.beginFile(lease, { object: upload.name, uploadId: upload.uploadId })
    const { etag } = await query.blobs.uploadPart(upload, 1, Buffer.from('a'))
    expect((await remove(exportId)).status).toBe(200)
    expect(await store.leases.renew(lease, Date.now())).toBe('lost')
    await expect(query.blobs.completeMultipartUpload(upload, [{ n: 1, etag, bytes: 1 }])).rejects.toMatchObject({
      code: 'conflict',
    })
  })

  test('removes a schedule with its runs and their files', async () => {
    const exportId = await addedSchedule()
    const run = await makeRun(exportId, Date.now())
    await finishExport({ exports: store, blobs: query.blobs }, run, { content: Buffer.from('a') })
    expect((await remove(exportId)).status).toBe(200)
    expect((await query.request(path(run))).status).toBe(404)
    expect(await blobNames()).toStrictEqual([])
  })
})

describe('GET /api/v1/exports/{export_id}/runs', () => {
  test('lists the runs of a schedule, newest first, with what they cover', async () => {
    const exportId = await addedSchedule()
    const first = Date.now()
    const second = first + hourMs
    const runs = [await makeRun(exportId, first), await makeRun(exportId, second)]
    await finishExport({ exports: store, blobs: query.blobs }, runs[0] ?? '', { content: Buffer.from('abc'), rows: 2 })
    const { body } = await query.request(path(exportId, '/runs?limit=2'), { key: own })
    expect(body.data).toStrictEqual({
      runs: [
        { export_id: runs[1], status: 'queued', start_date: first, end_date: second, rows: 0, bytes: 0 },
        { export_id: runs[0], status: 'completed', start_date: first - hourMs, end_date: first, rows: 2, bytes: 3 },
      ],
      total: 2,
      limit: 2,
      offset: 0,
    })
    const { runs: older } = (await query.request(path(exportId, '/runs?offset=1'))).body.data as { runs: ExportRun[] }
    expect(older.map(({ export_id }) => export_id)).toStrictEqual([runs[0]])
    expect(await read(runs[0] ?? '')).toMatchObject({ status: 'completed', scheduled: null })
  })

  test('a run of stats covers its period, one of users the state at the run', async () => {
    const at = Date.now()
    const stats = await addedSchedule({ type: 'stats' })
    await makeRun(stats, at, { type: 'stats', metric: 'visitors', start_date: 5, end_date: 9 })
    const users = await addedSchedule({ type: 'users' })
    await makeRun(users, at, { type: 'users' })
    const rangeOf = async (exportId: string) => {
      const { runs } = (await query.request(path(exportId, '/runs'))).body.data as { runs: ExportRun[] }
      return [runs[0]?.start_date, runs[0]?.end_date]
    }
    expect(await rangeOf(stats)).toStrictEqual([5, 9])
    expect(await rangeOf(users)).toStrictEqual([null, at + 1])
  })

  test('an export without a schedule has none', async () => {
    const { status, body } = await query.request(path(await added(), '/runs'))
    expect([status, body.data]).toStrictEqual([200, { runs: [], total: 0, limit: 50, offset: 0 }])
    expect((await query.request(path(await added(), '/runs?limit=0'))).status).toBe(400)
  })
})
