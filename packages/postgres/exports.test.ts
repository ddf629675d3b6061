import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { Criteria } from '@sluice/contracts/conditions'
import { dayMs, hourMs } from '@sluice/contracts/time-units'
import { LeaseLostError } from '@sluice/leases/lease-table'
import { addExport, exportTakers, hourly, noon, spec } from '../../tests/support/export-jobs.ts'
import { tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { lockAwaited, openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type ExportStore, exportStore } from './exports.ts'
import { openPostgres } from './open.ts'

const part = (n: number) => ({ n, etag: `"${n}"`, bytes: 8 })
const page = { limit: 50, offset: 0 }
let postgres: TestPostgres
let store: ExportStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = exportStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('exports').execute()
})

const { take, makeRun } = exportTakers(() => store)

describe('an export', () => {
  test('reads what was received until its creation, and is processing when it is taken', async () => {
    const created = { exportId: 'exp_1', siteId: 'shop', keyId: 'key_1', name: 'all', spec }
    const record = await store.create(created, noon)
    expect(record).toStrictEqual({
      ...created,
      scheduleId: null,
      occurrence: null,
      status: 'queued',
      receivedFrom: null,
      receivedUntil: noon + 1,
      rows: 0,
      bytes: 0,
      progress: 0,
      object: null,
      uploadId: null,
      afterKey: null,
      etag: null,
      restarts: 0,
      cohortCriteria: null,
      error: null,
      createdAt: noon,
      finishedAt: null,
      expiresAt: null,
      scheduled: null,
    })
    expect(await store.find('exp_1', null)).toStrictEqual(record)
    expect((await take(noon)).job).toStrictEqual({ ...record, status: 'processing' })
    expect(await store.find('exp_1', ['shop'])).toMatchObject({ status: 'processing' })
    expect(await store.find('exp_1', ['blog'])).toBeUndefined()
  })

  test('is written in parts, which are forgotten when the file is dropped', async () => {
    const { exportId } = await addExport(store, {}, noon)
    const lease = await take(noon)
    await store.beginFile(lease, { object: 'exports/a', uploadId: 'u1' })
    await store.recordParts(lease, { parts: [part(1), part(2)], afterKey: [7, 'e7', 'prod'], rows: 9, progress: 40 })
    await store.recordParts(lease, { parts: [part(3)], afterKey: [9, 'e9', 'dev'], rows: 12, progress: 60 })
    expect(await store.parts(exportId)).toStrictEqual([part(1), part(2), part(3)])
    const found = { object: 'exports/a', uploadId: 'u1', afterKey: [9, 'e9', 'dev'], rows: 12, progress: 60, bytes: 0 }
    expect(await store.find(exportId, null)).toMatchObject(found)
    const unwritten = { object: null, uploadId: null, afterKey: null, rows: 0, progress: 0, restarts: 1 }
    // An export without a file has none that begins again.
    for (let times = 0; times < 2; times++) {
      await store.dropFile(lease)
      expect(await store.parts(exportId)).toStrictEqual([])
      expect(await store.find(exportId, null)).toMatchObject(unwritten)
    }
  })

  test('keeps the criteria of its cohort from the beginning of its file until it ends, or begins anew after an erasure', async () => {
    const criteria: Criteria = {
      type: 'and',
      conditions: [{ property: 'country', operator: 'equals', value: 'DE' }],
    }
    const { exportId } = await addExport(store, { site: 'cohorts' }, noon)
    const criteriaNow = async () => (await store.find(exportId, null))?.cohortCriteria
    const first = await take(noon)
    await store.beginFile(first, { object: 'a', uploadId: 'u1', cohortCriteria: criteria })
    expect(await criteriaNow()).toStrictEqual(criteria)
    // The store of files has lost the upload.
    await store.dropFile(first)
    expect(await criteriaNow()).toStrictEqual(criteria)
    await store.withdraw('cohorts', noon)
    expect(await criteriaNow()).toBeNull()
    const second = await take(noon + 60_000)
    await store.beginFile(second, { object: 'b', uploadId: 'u3', cohortCriteria: criteria })
    await store.complete(second, { rows: 1, bytes: 1, etag: 'e', expiresAt: noon + 1 }, noon)
    expect(await criteriaNow()).toBeNull()
  })

  test('counts no failures from before its progress', async () => {
    await addExport(store, {}, noon)
    const lease = await take(noon)
    await store.leases.countFailure(lease, { isCausedByJob: true })
    await store.recordParts(lease, { parts: [part(1)], afterKey: [7, 'e7', 'prod'], rows: 9, progress: 40 })
    expect(await store.leases.countFailure(lease, { isCausedByJob: true })).toStrictEqual({ tries: 1, failures: 1 })
  })

  test('is completed, has a file for its time and expires', async () => {
    const { exportId } = await addExport(store, {}, noon)
    const lease = await take(noon)
    await store.beginFile(lease, { object: 'exports/a', uploadId: 'u1' })
    await store.complete(lease, { rows: 5, bytes: 70, etag: 'abc', expiresAt: noon + dayMs }, noon + 9)
    const times = { finishedAt: noon + 9, expiresAt: noon + dayMs }
    const completed = { status: 'completed', rows: 5, bytes: 70, etag: 'abc', progress: 100, uploadId: null, ...times }
    expect(await store.find(exportId, null)).toMatchObject(completed)
    expect(await store.leases.take(noon + 60_000, 1)).toStrictEqual([])
    expect(await store.expire(noon + dayMs - 1, 10)).toStrictEqual([])
    expect(await store.expire(noon + dayMs, 10)).toStrictEqual(['exports/a'])
    expect(await store.expire(noon + dayMs, 10)).toStrictEqual([])
    expect(await store.find(exportId, null)).toMatchObject({ status: 'expired', rows: 5 })
  })

  test('fails with a text for users', async () => {
    const { exportId } = await addExport(store, {}, noon)
    await store.leases.fail(await take(noon), 'Cohort not found', noon + 9)
    const failed = { status: 'failed', error: 'Cohort not found', finishedAt: noon + 9 }
    expect(await store.find(exportId, null)).toMatchObject(failed)
  })

  test('that is completed while it is withdrawn is withdrawn, too', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec }, noon)
    await take(noon)
    const { db } = postgres
    let withdrawn: Promise<unknown> | undefined
    await db.transaction().execute(async (completion) => {
      const completed = { status: 'completed', due_at: null, lease_until: null } as const
      await completion.updateTable('exports').set(completed).where('export_id', '=', exportId).execute()
      withdrawn = store.withdraw('shop', noon + 1)
      await lockAwaited(postgres)
    })
    await withdrawn
    expect(await store.find(exportId, null)).toMatchObject({ status: 'expired' })
  })

  test('that is under way begins anew when it is withdrawn, which is counted', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec }, noon)
    for (const [at, restarts] of [
      [noon, 1],
      [noon + 60_010, 2],
    ] as const) {
      await store.beginFile(await take(at), { object: 'exports/a', uploadId: 'u1' })
      // Several erasures in a short time restart it only once.
      for (const soon of [0, 10]) await store.withdraw('shop', at + soon)
      expect(await store.find(exportId, null)).toMatchObject({ status: 'processing', uploadId: null, restarts })
      expect(await store.leases.take(at + 59_000, 1)).toStrictEqual([])
    }
  })

  test('is made again when it is a run by time of receipt that is withdrawn: no other run has its rows', async () => {
    const { exportId: scheduleId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    const run = await makeRun(noon, { completeUntil: noon - 1 })
    const exportId = run?.exportId ?? ''
    const lease = await take(noon)
    await store.beginFile(lease, { object: 'exports/a', uploadId: 'u1' })
    await store.recordParts(lease, { parts: [part(1)], afterKey: [7, 'e7', 'prod'], rows: 9, progress: 40 })
    await store.complete(lease, { rows: 9, bytes: 70, etag: 'abc', expiresAt: noon + dayMs }, noon + 9)
    expect(await store.withdraw('shop', noon + 20)).toStrictEqual({ objects: ['exports/a'], uploads: [] })
    const expiresAt = noon + dayMs
    expect(await store.find(exportId, null)).toStrictEqual({ ...run, expiresAt })
    expect(await store.latestCompletedRun(scheduleId)).toBeUndefined()
    // Not at once: another erasure may follow.
    expect(await store.leases.take(noon + 599_000, 1)).toStrictEqual([])
    const again = await take(noon + 600_020)
    expect(again).toMatchObject({ id: exportId, job: { rows: 0, afterKey: null, object: null } })
    const file = { rows: 8, bytes: 60, etag: 'def' }
    await store.complete(again, { ...file, expiresAt: noon + 2 * dayMs }, noon + 600_030)
    expect(await store.find(exportId, null)).toMatchObject({ status: 'completed', ...file, expiresAt })
    // A run whose file would expire before it is made is not made again.
    const files = { objects: ['exports/b'], uploads: [] }
    await postgres.db.updateTable('exports').set({ object: 'exports/b' }).where('export_id', '=', exportId).execute()
    expect(await store.withdraw('shop', noon + dayMs - 599_000)).toStrictEqual(files)
    // A caller that failed before it had removed the files gets them again.
    expect(await store.withdraw('shop', noon + dayMs - 598_000)).toStrictEqual(files)
    expect(await store.withdraw('shop', noon + 2 * dayMs - 598_000)).toStrictEqual({ objects: [], uploads: [] })
    expect(await store.find(exportId, null)).toMatchObject({ status: 'expired' })
  })

  test('changes in no way without the lease', async () => {
    const { exportId } = await addExport(store, {}, noon)
    const lost = await take(noon)
    await take(noon + 30_000)
    const before = await store.find(exportId, null)
    const done = { parts: [part(1)], afterKey: [7, 'e7', 'prod'], rows: 9, progress: 40 } as const
    await expect(store.beginFile(lost, { object: 'a', uploadId: 'u' })).rejects.toThrow(LeaseLostError)
    await expect(store.dropFile(lost)).rejects.toThrow(LeaseLostError)
    await expect(store.recordParts(lost, done)).rejects.toThrow(LeaseLostError)
    await expect(store.complete(lost, { rows: 1, bytes: 1, etag: '', expiresAt: 1 }, noon)).rejects.toThrow(
      LeaseLostError,
    )
    await expect(store.leases.fail(lost, 'text', noon)).rejects.toThrow(LeaseLostError)
    expect(await store.find(exportId, null)).toStrictEqual(before)
    expect(await store.parts(exportId)).toStrictEqual([])
  })

  test('that is deleted leaves its files to the caller, and its worker can record nothing more', async () => {
    const { exportId, siteId } = await addExport(store, {}, noon)
    const lease = await take(noon)
    await store.beginFile(lease, { object: 'exports/a', uploadId: 'u1' })
    expect(await store.delete(exportId, ['other'])).toBeUndefined()
    const files = { objects: ['exports/a'], uploads: [{ name: 'exports/a', uploadId: 'u1' }] }
    expect(await store.delete(exportId, [siteId])).toStrictEqual(files)
    expect(await store.find(exportId, null)).toBeUndefined()
    await expect(store.complete(lease, { rows: 1, bytes: 1, etag: '', expiresAt: 1 }, noon)).rejects.toThrow(
      LeaseLostError,
    )
    expect(await store.delete(exportId, null)).toBeUndefined()
  })
})

test('a key with exports of very many sites does not delay the export of another key', async () => {
  for (let n = 0; n < 50; n += 1) await addExport(store, { keyId: 'key_a' }, noon)
  await take(noon + 1)
  const { exportId } = await addExport(store, { keyId: 'key_b' }, noon + 5)
  expect((await take(noon + 10)).id).toBe(exportId)
})

describe('of the exports of one site', () => {
  test('one runs at a time, the oldest that is due', async () => {
    const site = 'shop'
    const first = await addExport(store, { site }, noon)
    const second = await addExport(store, { site }, noon - 5)
    const other = await addExport(store, { site: 'blog' }, noon)
    const taken = await store.leases.take(noon, 10)
    expect(taken.map(({ id }) => id).sort()).toStrictEqual([first.exportId, other.exportId].sort())
    expect(await store.leases.take(noon, 10)).toStrictEqual([])
    const [lease] = taken.filter(({ id }) => id === first.exportId)
    const [others] = taken.filter(({ id }) => id === other.exportId)
    if (!lease || !others) throw new Error('the oldest were not taken')
    await store.leases.fail(others, 'text', noon)
    await store.leases.release(lease, noon + 20_000, { isProgress: false })
    // While the oldest waits to be tried again, the next one has its turn, which the oldest does not interrupt.
    const next = await take(noon + 1)
    expect(next.id).toBe(second.exportId)
    expect(await store.leases.take(noon + 20_000 - 1, 10)).toStrictEqual([])
    expect(await store.leases.take(noon + 20_000, 10)).toStrictEqual([])
    await store.complete(next, { rows: 0, bytes: 0, etag: '', expiresAt: noon }, noon + 2)
    expect((await take(noon + 60_000)).id).toBe(first.exportId)
  })

  test('the next one is behind the exports of other sites when one ends', async () => {
    const site = 'shop'
    // One that waits for its time has no turn to lose.
    await addExport(store, { site }, noon)
    await store.leases.release(await take(noon), noon + hourMs, { isProgress: true })
    await addExport(store, { site }, noon)
    const next = await addExport(store, { site }, noon)
    const lease = await take(noon)
    const other = await addExport(store, { site: 'blog' }, noon + 5)
    await store.leases.fail(lease, 'text', noon + 9)
    expect((await take(noon + 10)).id).toBe(other.exportId)
    expect((await take(noon + 10)).id).toBe(next.exportId)
  })
})

test('exports are listed newest first, page by page, without the runs of schedules', async () => {
  const site = 'shop'
  const added = []
  for (const at of [noon, noon + 1]) added.push(await addExport(store, { site }, at))
  added.push(await addExport(store, { site, spec, scheduled: hourly }, noon + 2))
  await makeRun(noon)
  await addExport(store, { site: 'blog' }, noon)
  await addExport(store, { site, spec: { type: 'users' } }, noon)
  const ids = async (limit: number, offset: number) => {
    const { exports, total } = await store.list(site, ['events', 'stats'], { limit, offset })
    expect(total).toBe(3)
    return exports.map(({ exportId }) => exportId)
  }
  expect([...(await ids(2, 0)), ...(await ids(2, 2))]).toStrictEqual(added.map(({ exportId }) => exportId).reverse())
})

test('a page whose filters are too large together is refused, and a smaller one is answered', async () => {
  for (let n = 0; n < 2; n++) await addExport(store, { site: 'large' }, noon)
  const long = sql`jsonb_build_object('cohort_id', repeat('x', 17000000))`
  await sql`UPDATE exports SET spec = spec || ${long} WHERE site_id = 'large'`.execute(postgres.db)
  await expect(store.list('large', ['events'], { limit: 2, offset: 0 })).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: limit is too high: the page would be too large, so use a lower limit',
  })
  const { exports, total } = await store.list('large', ['events'], { limit: 1, offset: 1 })
  expect([exports.length, total]).toStrictEqual([1, 2])
})

test('while Postgres is unavailable, the store and its leases throw AppError 503', async () => {
  const proxy = await tcpProxy(postgres.url)
  const away = openPostgres(proxy.url)
  const lost = exportStore(away)
  await proxy.cut()
  const lease = { id: 'exp_1', lease: 1 }
  const calls = [
    () => addExport(lost, {}, noon),
    () => lost.find('exp_1', null),
    () => lost.list('shop', ['events'], page),
    () => lost.update('exp_1', null, { name: 'x' }),
    () => lost.delete('exp_1', null),
    () => lost.complete(lease, { rows: 1, bytes: 1, etag: '', expiresAt: 1 }, noon),
    () => lost.leases.take(noon, 1),
    () => lost.schedules.take(noon, 1),
    () => lost.createRun(lease, { exportId: 'exp_2', spec, receipt: null, nextRun: noon }, noon),
  ]
  for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  await away.close()
})
