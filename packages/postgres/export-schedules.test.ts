import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { dayMs, hourMs } from '@sluice/contracts/time-units'
import { LeaseLostError } from '@sluice/leases/lease-table'
import { newId } from '@sluice/runtime/ids'
import { addExport, exportTakers, hourly, noon, spec } from '../../tests/support/export-jobs.ts'
import { addImport } from '../../tests/support/import-jobs.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type ExportStore, exportStore } from './exports.ts'
import { type ImportStore, importStore } from './imports.ts'

const part = (n: number) => ({ n, etag: `"${n}"`, bytes: 8 })
const page = { limit: 50, offset: 0 }
let postgres: TestPostgres
let store: ExportStore
let imports: ImportStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = exportStore(postgres)
  imports = importStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('exports').execute()
  await postgres.db.deleteFrom('imports').execute()
})

const { take, takeSchedule, makeRun } = exportTakers(() => store)

describe('a schedule', () => {
  test('makes its first run at its time, and shows what became of the latest', async () => {
    const schedule = await addExport(store, { site: 'shop', spec, name: 'hourly events', scheduled: hourly }, noon - 5)
    const scheduled = { frequency: 'hourly', nextRun: noon, paused: false }
    expect(schedule).toMatchObject({ status: 'queued', receivedUntil: null, scheduled })
    expect(await store.leases.take(noon + dayMs, 1)).toStrictEqual([])
    expect(await store.schedules.take(noon - 1, 1)).toStrictEqual([])
    const run = await makeRun(noon)
    const times = {
      occurrence: noon,
      receivedFrom: noon - hourMs,
      receivedUntil: noon,
      createdAt: noon,
    }
    const made = { scheduleId: schedule.exportId, siteId: 'shop', name: 'hourly events', spec, scheduled: null }
    expect(run).toMatchObject({ ...made, ...times, status: 'queued' })
    const lease = await take(noon)
    expect(lease.id).toBe(run?.exportId)
    await store.complete(lease, { rows: 5, bytes: 70, etag: 'abc', expiresAt: noon + dayMs }, noon + 9)
    const shown = { status: 'completed', rows: 5, bytes: 70, progress: 100, finishedAt: noon + 9 }
    expect(await store.find(schedule.exportId, null)).toMatchObject({
      ...shown,
      scheduled: { ...scheduled, nextRun: noon + hourMs },
    })
    await makeRun(noon + hourMs)
    expect(await store.find(schedule.exportId, null)).toMatchObject({ status: 'queued', rows: 0 })
    expect(await store.latestCompletedRun(schedule.exportId)).toMatchObject({ exportId: run?.exportId })
  })

  test('has runs that begin where the one before ended, and end before what is not complete', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    const ranges = [
      await makeRun(noon, { completeUntil: noon - 50 }),
      await makeRun(noon + hourMs, { completeUntil: noon - 70 }),
      await makeRun(noon + 2 * hourMs),
    ].map((run) => [run?.receivedFrom, run?.receivedUntil])
    expect(ranges).toStrictEqual([
      [noon - hourMs, noon - 50],
      [noon - 50, noon - 50],
      [noon - 50, noon + 2 * hourMs],
    ])
    const { runs, total } = await store.runs(exportId, { limit: 2, offset: 0 })
    expect([total, ...runs.map(({ occurrence }) => occurrence)]).toStrictEqual([3, noon + 2 * hourMs, noon + hourMs])
  })

  test('has runs that end now at the latest, even if the clock by which everything is complete was ahead', async () => {
    await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    expect(await makeRun(noon, { completeUntil: noon + 2 * hourMs })).toMatchObject({ receivedUntil: noon })
    expect(await makeRun(noon + hourMs)).toMatchObject({ receivedFrom: noon, receivedUntil: noon + hourMs })
  })

  test('leaves the rows of unfinished imports of the site to the next run', async () => {
    await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    await addImport(imports, { site: 'blog' }, noon - 40)
    await addImport(imports, { site: 'shop', type: 'users' }, noon - 40)
    await addImport(imports, { site: 'shop' }, noon - 30)
    expect(await makeRun(noon)).toMatchObject({ receivedUntil: noon - 30 })
    const leases = await imports.leases.take(noon, 10)
    for (const lease of leases) await imports.complete(lease, noon)
    for (const lease of await imports.leases.take(noon, 10)) await imports.complete(lease, noon)
    expect(await makeRun(noon + hourMs)).toMatchObject({
      receivedFrom: noon - 30,
      receivedUntil: noon + hourMs,
    })
  })

  test.each(['cancelled', 'failed'])(
    'leaves the rows of a %s import to the next run for ten minutes, while the log may still hold some',
    async (end) => {
      await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
      const endedAt = noon - 599_000
      const { importId } = await addImport(imports, { site: 'shop' }, endedAt - 10)
      const [lease] = await imports.leases.take(endedAt, 1)
      if (!lease) throw new Error('no import was taken')
      if (end === 'failed') await imports.leases.fail(lease, 'text', endedAt)
      else await imports.cancel(importId, null, endedAt)
      expect(await makeRun(noon)).toMatchObject({ receivedUntil: endedAt - 10 })
      expect(await makeRun(noon + hourMs)).toMatchObject({ receivedUntil: noon + hourMs })
    },
  )

  test('does not miss an import whose acceptance is stored after the run', async () => {
    await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    await makeRun(noon)
    expect(await addImport(imports, { site: 'shop' }, noon - 30)).toMatchObject({ acceptedAt: noon })
    expect(await addImport(imports, { site: 'blog' }, noon - 30)).toMatchObject({ acceptedAt: noon - 30 })
  })

  test('and acceptances of imports wait for one another', async () => {
    await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    const lease = await takeSchedule(noon)
    const receipt = { firstFrom: noon - hourMs, completeUntil: noon }
    const [run, accepted] = await Promise.all([
      store.createRun(lease, { exportId: newId('exp'), spec, receipt, nextRun: noon + 1 }, noon),
      ...[1, 2, 3, 4].map((n) => addImport(imports, { site: 'shop' }, noon - n)),
    ])
    const cutoff = run?.receivedUntil ?? 0
    const { imports: all } = await imports.list('shop', ['events'], page)
    for (const { acceptedAt } of all) expect(acceptedAt).toBeGreaterThanOrEqual(cutoff)
    expect(accepted).toBeDefined()
  })

  test('has one run for each occurrence, which a second one does not move on', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    await makeRun(noon)
    await store.update(exportId, null, { scheduled: { nextRun: noon } })
    expect(await makeRun(noon + 5)).toBeUndefined()
    expect(await makeRun(noon + 5 + hourMs)).toMatchObject({ receivedFrom: noon })
  })

  test('makes no run without its lease, and none while it is paused', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    const lost = await takeSchedule(noon)
    await store.update(exportId, null, { scheduled: { paused: true } })
    const run = { exportId: newId('exp'), spec, receipt: null, nextRun: noon + 1 }
    await expect(store.createRun(lost, run, noon)).rejects.toThrow(LeaseLostError)
    expect(await store.runs(exportId, page)).toStrictEqual({ runs: [], total: 0 })
    expect(await store.schedules.take(noon + dayMs, 1)).toStrictEqual([])
    await store.update(exportId, null, { scheduled: { paused: false } })
    expect((await takeSchedule(noon)).job).toMatchObject({ nextRun: noon })
  })

  test('counts its occurrences from a next run that is set, or from where its frequency changes', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    await makeRun(noon)
    expect((await takeSchedule(noon + hourMs)).job).toMatchObject({ anchor: noon, nextRun: noon + hourMs })
    const renamed = await store.update(exportId, ['shop'], { name: 'other' })
    expect(renamed).toMatchObject({ name: 'other', scheduled: { frequency: 'hourly' } })
    await store.update(exportId, null, { scheduled: { frequency: 'monthly' } })
    const monthly = { anchor: noon + hourMs, nextRun: noon + hourMs, frequency: 'monthly' }
    expect((await takeSchedule(noon + hourMs)).job).toMatchObject(monthly)
    await store.update(exportId, null, { scheduled: { nextRun: noon + 7 } })
    expect((await takeSchedule(noon + 7)).job).toMatchObject({ anchor: noon + 7, nextRun: noon + 7 })
    expect(await store.update(exportId, ['blog'], { name: 'x' })).toBeUndefined()
  })

  test('that has failed goes on, without its error, when its time is set anew', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    await store.schedules.fail(await takeSchedule(noon), 'text', noon)
    expect(await store.find(exportId, null)).toMatchObject({ status: 'failed', error: 'text' })
    await store.update(exportId, null, { scheduled: { nextRun: noon + 5 } })
    expect(await store.find(exportId, null)).toMatchObject({ status: 'queued', error: null })
    expect(await makeRun(noon + 5)).toMatchObject({ scheduleId: exportId })
  })

  test('that is set to the same recurrence keeps its anchor', async () => {
    const monthly = { frequency: 'monthly', nextRun: noon, paused: false } as const
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: monthly }, noon)
    const nextRun = noon + 27 * dayMs
    const lease = await takeSchedule(noon)
    await store.createRun(lease, { exportId: newId('exp'), spec, receipt: null, nextRun }, noon)
    await store.update(exportId, null, { scheduled: { frequency: 'monthly', nextRun, paused: false } })
    expect((await takeSchedule(nextRun)).job).toMatchObject({ anchor: noon, nextRun })
  })

  test('shows the run that was made last, also one for a time before', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    const first = await makeRun(noon)
    await store.update(exportId, null, { scheduled: { nextRun: 0 } })
    const last = await makeRun(noon + 5)
    const { runs } = await store.runs(exportId, page)
    expect(runs.map(({ exportId: id }) => id)).toStrictEqual([last?.exportId, first?.exportId])
    await store.complete(await take(noon + 6), { rows: 1, bytes: 7, etag: 'a', expiresAt: noon + dayMs }, noon + 6)
    await store.complete(await take(noon + 7), { rows: 2, bytes: 7, etag: 'b', expiresAt: noon + dayMs }, noon + 7)
    expect(await store.find(exportId, null)).toMatchObject({ rows: 2 })
    expect(await store.latestCompletedRun(exportId)).toMatchObject({ exportId: last?.exportId })
  })

  test('is deleted with its runs and their files', async () => {
    const { exportId } = await addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)
    const run = await makeRun(noon)
    await store.beginFile(await take(noon), { object: 'exports/run', uploadId: 'u' })
    expect(await store.delete(exportId, null)).toMatchObject({ objects: ['exports/run'] })
    expect(await store.find(run?.exportId ?? '', null)).toBeUndefined()
    expect(await store.schedules.take(noon + dayMs, 1)).toStrictEqual([])
  })
})

describe('a run by time of receipt that fails', () => {
  const file = { rows: 5, bytes: 70, etag: 'abc', expiresAt: noon + 7 * dayMs }
  const begin = async () => addExport(store, { site: 'shop', spec, scheduled: hourly }, noon)

  test('leaves what it would have read to the next one', async () => {
    const { exportId } = await begin()
    const failed = await makeRun(noon)
    const lease = await take(noon)
    await store.leases.fail(lease, 'text', noon + 1)
    // The worker did not learn that the transaction was committed.
    await store.leases.fail(lease, 'text', noon + 2)
    await store.leases.release(lease, null, { isProgress: false })
    const ended = { status: 'failed', error: 'text', finishedAt: noon + 2 }
    expect(await store.find(failed?.exportId ?? '', null)).toMatchObject(ended)
    expect(await store.leases.take(noon + dayMs, 1)).toStrictEqual([])
    await store.update(exportId, null, { scheduled: { nextRun: noon + 5 } })
    expect(await makeRun(noon + 5)).toMatchObject({
      receivedFrom: noon - hourMs,
      receivedUntil: noon + 5,
    })
    expect(await makeRun(noon + 5 + hourMs)).toMatchObject({ receivedFrom: noon + 5 })
  })

  test('leaves it to a run that is there already, which begins anew', async () => {
    await begin()
    await makeRun(noon)
    const next = await makeRun(noon + hourMs)
    const late = await makeRun(noon + 2 * hourMs)
    const first = await take(noon)
    await store.leases.release(first, noon + 3 * hourMs, { isProgress: false })
    const second = await take(noon + 2 * hourMs)
    await store.beginFile(second, { object: 'exports/a', uploadId: 'u1' })
    await store.recordParts(second, { parts: [part(1)], afterKey: [7, 'e7', 'prod'], rows: 9, progress: 40 })
    await store.leases.release(second, noon + 4 * hourMs, { isProgress: true })
    await store.leases.fail(await take(noon + 3 * hourMs), 'text', noon + 3 * hourMs)
    expect(await store.find(next?.exportId ?? '', null)).toStrictEqual({
      ...next,
      receivedFrom: noon - hourMs,
    })
    expect(await store.parts(next?.exportId ?? '')).toStrictEqual([])
    await expect(store.complete(second, file, noon)).rejects.toThrow(LeaseLostError)
    expect(await take(noon + 3 * hourMs)).toMatchObject({ id: next?.exportId })
    expect(await store.find(late?.exportId ?? '', null)).toStrictEqual(late)
  })

  test('is tried again each hour when the run after it has its file', async () => {
    const { exportId } = await begin()
    const run = await makeRun(noon)
    const failed = run?.exportId ?? ''
    await makeRun(noon + hourMs)
    await store.leases.release(await take(noon), noon + 2 * hourMs, { isProgress: false })
    await store.complete(await take(noon + hourMs), file, noon + hourMs)
    let at = noon + 2 * hourMs
    for (const text of ['one', 'two']) {
      const lease = await take(at)
      expect(lease).toMatchObject({ id: failed, failures: 0, job: { status: 'processing', error: null, object: null } })
      await store.beginFile(lease, { object: 'exports/a', uploadId: 'u1' })
      await store.leases.countFailure(lease, { isCausedByJob: true })
      await store.leases.fail(lease, text, at)
      await store.leases.release(lease, null, { isProgress: false })
      expect(await store.find(failed, null)).toMatchObject({ status: 'failed', error: text, finishedAt: at })
      expect(await store.leases.take(at + hourMs - 1, 1)).toStrictEqual([])
      at += hourMs
    }
    await store.complete(await take(at), file, at)
    const completed = {
      status: 'completed',
      error: null,
      receivedFrom: run?.receivedFrom,
      receivedUntil: noon,
    }
    expect(await store.find(failed, null)).toMatchObject(completed)
    expect(await makeRun(at)).toMatchObject({ scheduleId: exportId, receivedFrom: noon + hourMs })
  })

  test('is tried again itself when an erasure has removed the file of the run after it', async () => {
    await begin()
    const run = await makeRun(noon)
    const next = await makeRun(noon + hourMs)
    await store.leases.release(await take(noon), noon + 2 * hourMs, { isProgress: false })
    await store.complete(await take(noon + hourMs), file, noon + hourMs)
    await store.withdraw('shop', noon + hourMs)
    const lease = await take(noon + 2 * hourMs)
    expect(lease.id).toBe(run?.exportId)
    await store.leases.fail(lease, 'text', noon + 2 * hourMs)
    await store.leases.release(lease, null, { isProgress: false })
    // Somebody may have downloaded the file of the next run, which did not have these events.
    const after = await take(noon + 2 * hourMs)
    expect(after).toMatchObject({ id: next?.exportId, job: { receivedFrom: noon } })
    await store.complete(after, file, noon + 2 * hourMs)
    expect((await take(noon + 3 * hourMs)).id).toBe(run?.exportId)
  })

  test('is tried again itself when an erasure has removed its file, until that would have expired', async () => {
    await begin()
    const run = await makeRun(noon)
    const expiresAt = noon + 2 * hourMs
    await store.complete(await take(noon), { ...file, expiresAt }, noon)
    await store.withdraw('shop', noon)
    await store.leases.fail(await take(noon + hourMs / 2), 'text', noon + hourMs / 2)
    // Its events may have been downloaded: they are in no other run.
    expect(await makeRun(noon + hourMs)).toMatchObject({ receivedFrom: noon })
    await store.leases.release(await take(noon + hourMs), noon + dayMs, { isProgress: false })
    const again = await take(noon + 1.5 * hourMs)
    expect(again).toMatchObject({ id: run?.exportId })
    await store.leases.fail(again, 'text', noon + 1.5 * hourMs)
    expect(await store.leases.take(noon + dayMs - 1, 1)).toStrictEqual([])
  })

  test('and the making of the next one wait for one another', async () => {
    const { exportId } = await begin()
    const from = noon - hourMs
    for (let n = 0; n < 20; n++) {
      const at = noon + n * hourMs
      if (n === 0) await makeRun(at)
      const failing = await take(at)
      const schedule = await takeSchedule(at + hourMs)
      const receipt = { firstFrom: 0, completeUntil: at + hourMs }
      const next = { exportId: newId('exp'), spec, receipt, nextRun: at + 2 * hourMs }
      await Promise.all([store.leases.fail(failing, 'text', at), store.createRun(schedule, next, at + hourMs)])
      await store.schedules.release(schedule, at + 2 * hourMs, { isProgress: true })
      expect(await store.find(next.exportId, null)).toMatchObject({ receivedFrom: from })
    }
    expect(await store.find(exportId, null)).toMatchObject({ status: 'queued' })
  })
})
