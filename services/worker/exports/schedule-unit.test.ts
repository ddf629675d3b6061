import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { ExportSpec, ExportStatus, Frequency } from '@sluice/contracts/exports'
import { importStore } from '@sluice/postgres/imports'
import { siteStore } from '@sluice/postgres/sites'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { createExportRig, exportedAt, type ExportRig } from '../../../tests/support/export-rig.ts'
import { addImport } from '../../../tests/support/import-jobs.ts'
import { removeUnneededExportFiles } from './export-files.ts'
import { scheduleUnit } from './schedule-unit.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const page = { limit: 1_000, offset: 0 }
let rig: ExportRig

beforeAll(async () => {
  rig = await createExportRig()
})

afterAll(async () => {
  await rig.drop()
})

/** Does the unit of the schedule that is due at `now`; false: none is. */
async function workAt(now: number, completeUntil = now): Promise<boolean> {
  const [leased] = await rig.exports.schedules.take(now, 1)
  if (!leased) return false
  const unit = scheduleUnit({
    exports: rig.exports,
    sites: siteStore(rig.postgres),
    watermarks: { readCompleteTimes: () => Promise.resolve({ live: completeUntil, all: completeUntil }) },
    clock: { now: () => now },
  })
  const { next } = await unit(leased.job, leased)
  await rig.exports.schedules.release(leased, next as number, { isProgress: true })
  return true
}

async function schedule(spec: Partial<ExportSpec>, nextRun: number, frequency: Frequency = 'hourly', madeAt = nextRun) {
  const scheduled = { frequency, nextRun, paused: false }
  const { exportId, siteId } = await addExport(rig.exports, { spec, scheduled }, madeAt)
  return { exportId, siteId }
}

async function runsOf(exportId: string) {
  const { runs } = await rig.exports.runs(exportId, page)
  return runs.reverse()
}

test('a run waits for what was accepted before its time, for a minute', async () => {
  const { exportId } = await schedule({}, exportedAt)
  await workAt(exportedAt, exportedAt - 5)
  expect(await runsOf(exportId)).toHaveLength(0)
  await workAt(exportedAt + 1_000, exportedAt - 5)
  expect(await runsOf(exportId)).toHaveLength(0)
  await workAt(exportedAt + 60_000, exportedAt - 5)
  expect(await runsOf(exportId)).toMatchObject([{ receivedFrom: exportedAt - hourMs, receivedUntil: exportedAt - 5 }])
  await rig.exports.delete(exportId, null)
})

test('after a restore, the file of a run waits until its events are stored again', async () => {
  const { exportId } = await schedule({}, exportedAt)
  await workAt(exportedAt)
  const { job, lease } = await rig.take()
  const unitAt = (all: number) =>
    rig.unit({ watermarks: { readCompleteTimes: () => Promise.resolve({ live: all, all }) } })(job, lease)
  for (const all of [0, exportedAt - 1]) expect(await unitAt(all)).toMatchObject({ log: { waits: 'for the writers' } })
  expect(await runsOf(exportId)).toMatchObject([{ status: 'processing', uploadId: null }])
  expect(await unitAt(exportedAt)).toMatchObject({ next: 'done' })
  expect(await runsOf(exportId)).toMatchObject([{ status: 'completed' }])
  await rig.exports.delete(exportId, null)
})

test('a schedule whose time has passed runs once, and then at its next time in the zone of the site', async () => {
  const { exportId, siteId } = await schedule({}, Date.UTC(2024, 2, 29, 8), 'daily')
  const settings = { name: 'Shop', timezone: 'Europe/Berlin', conversion_event: null, retention_days: null }
  await siteStore(rig.postgres).create(siteId, settings, 'key_1')
  // Summer time began on 31 March.
  const now = Date.UTC(2024, 3, 2, 7)
  expect(await workAt(now)).toBe(true)
  expect(await workAt(now)).toBe(false)
  const nextRun = Date.UTC(2024, 3, 3, 7)
  expect(await rig.exports.find(exportId, null)).toMatchObject({ scheduled: { nextRun } })
  expect(await runsOf(exportId)).toMatchObject([{ receivedFrom: Date.UTC(2024, 2, 28, 8), receivedUntil: now }])
  await rig.exports.delete(exportId, null)
})

test('a schedule whose worker did not learn that the run was made waits for its next time', async () => {
  const { exportId } = await schedule({}, exportedAt)
  await workAt(exportedAt)
  const retried = rig.postgres.db.updateTable('export_schedules').set({ due_at: new Date(exportedAt + 1_000) })
  await retried.where('schedule_id', '=', exportId).execute()
  expect(await workAt(exportedAt + 1_000)).toBe(true)
  expect(await workAt(exportedAt + hourMs - 1)).toBe(false)
  expect(await workAt(exportedAt + hourMs)).toBe(true)
  expect(await runsOf(exportId)).toHaveLength(2)
  await rig.exports.delete(exportId, null)
})

test('stats are of the period before, events of the first run from the start date, and users as they are', async () => {
  const stats = await schedule({ type: 'stats', metric: 'event_count' }, exportedAt, 'weekly')
  const events = await schedule({ start_date: 7, end_date: 9 }, exportedAt)
  const users = await schedule({ type: 'users' }, exportedAt)
  while (await workAt(exportedAt)) continue
  const [statsRun] = await runsOf(stats.exportId)
  const [eventsRun] = await runsOf(events.exportId)
  const [usersRun] = await runsOf(users.exportId)
  expect(statsRun?.spec).toMatchObject({ start_date: exportedAt - 7 * dayMs, end_date: exportedAt })
  expect(eventsRun?.spec).not.toHaveProperty('start_date')
  expect(eventsRun?.spec).not.toHaveProperty('end_date')
  expect(eventsRun).toMatchObject({ receivedFrom: 7, receivedUntil: exportedAt })
  expect(usersRun).toMatchObject({ receivedFrom: null, receivedUntil: exportedAt + 1 })
  for (const { exportId } of [stats, events, users]) await rig.exports.delete(exportId, null)
})

test('a run of stats that is late by several occurrences is of the latest one', async () => {
  const { exportId } = await schedule({ type: 'stats', metric: 'event_count' }, exportedAt)
  // No worker ran, or the schedule was paused.
  expect(await workAt(exportedAt + 3.5 * hourMs)).toBe(true)
  const [run] = await runsOf(exportId)
  expect(run?.spec).toMatchObject({ start_date: exportedAt + 2 * hourMs, end_date: exportedAt + 3 * hourMs })
  await rig.exports.delete(exportId, null)
})

test('a first run whose time was over before the schedule was made begins one period back', async () => {
  const madeAt = exportedAt + 600_000
  const daily = await schedule({}, 1, 'daily', madeAt)
  const stats = await schedule({ type: 'stats', metric: 'event_count' }, 1, 'daily', madeAt)
  // No worker ran for a day.
  while (await workAt(madeAt + dayMs)) continue
  const midnight = exportedAt - (exportedAt % dayMs) + 1
  const [dailyRun] = await runsOf(daily.exportId)
  expect(dailyRun).toMatchObject({ receivedFrom: midnight - dayMs, receivedUntil: madeAt + dayMs })
  const [statsRun] = await runsOf(stats.exportId)
  expect(statsRun?.spec).toMatchObject({ start_date: midnight, end_date: midnight + dayMs })
  for (const { exportId } of [daily, stats]) await rig.exports.delete(exportId, null)
})

interface Received {
  at: number
  /** Null: a live event. */
  importId: string | null
  timesExported: number
}

test('over 200 runs with late events and imports, every event is in one run', async () => {
  const { exportId, siteId } = await schedule({}, exportedAt)
  const imports = importStore(rig.postgres)
  const draw = drawing()
  const received: Received[] = []
  const completed = new Set<string>()

  async function accept(at: number): Promise<void> {
    const { importId, acceptedAt } = await addImport(imports, { site: siteId }, at)
    received.push({ at: acceptedAt, importId, timesExported: 0 })
  }
  async function completeOne(now: number): Promise<boolean> {
    const leases = await imports.leases.take(now, 1)
    for (const lease of leases) {
      await imports.complete(lease, now)
      completed.add(lease.id)
    }
    return leases.length > 0
  }
  /** Makes the run that is due, which reads what can be read now. */
  async function run(now: number, completeUntil: number): Promise<void> {
    const before = await rig.exports.runs(exportId, { limit: 1, offset: 0 })
    await workAt(now, completeUntil)
    const { runs, total } = await rig.exports.runs(exportId, { limit: 1, offset: 0 })
    if (total === before.total) return
    const [from, until] = [runs[0]?.receivedFrom ?? 0, runs[0]?.receivedUntil ?? 0]
    for (const event of received) {
      const isStored = event.importId === null ? event.at < completeUntil : completed.has(event.importId)
      if (isStored && from <= event.at && event.at < until) event.timesExported++
    }
  }

  for (let n = 0; n < 210; n++) {
    const occurrence = exportedAt + n * hourMs
    const now = occurrence + draw(50) * 1_000
    for (let live = 0; live < 5; live++) {
      // Received after the previous run, because no event is received before a time that is complete.
      received.push({ at: occurrence - draw(900) * 3_600, importId: null, timesExported: 0 })
    }
    received.push({ at: now - draw(60_000), importId: null, timesExported: 0 })
    // The acceptance of an import is stored before the run or after it, whatever its time.
    if (draw(3) === 0) await accept(now - draw(120_000))
    // Imports catch up most of the time, or all runs would end at the oldest one.
    if (draw(3) > 0) while (await completeOne(now)) continue
    // The writers are up to some minutes behind.
    const completeUntil = now - draw(4) * 50_000
    await run(now, completeUntil)
    if (draw(2) === 0) await accept(now - draw(120_000))
    await run(occurrence + 61_000, completeUntil)
  }
  const end = exportedAt + 300 * hourMs
  while (await completeOne(end)) continue
  await run(end, end)
  expect((await rig.exports.runs(exportId, page)).total).toBeGreaterThan(200)
  expect(received.filter(({ importId }) => importId !== null).length).toBeGreaterThan(100)
  expect(received.filter(({ timesExported }) => timesExported !== 1)).toStrictEqual([])
  await rig.exports.delete(exportId, null)
})

test('over 200 runs that fail, wait or are withdrawn, every event is in one file', async () => {
  const { exportId, siteId } = await schedule({}, exportedAt)
  const draw = drawing()
  const received: number[] = []
  /** The times of receipt of each file. */
  const files = new Map<string, [from: number, until: number]>()
  let failures = 0

  async function work(now: number, failsMax: number): Promise<boolean> {
    const [lease] = await rig.exports.leases.take(now, 1)
    if (!lease) return false
    const outcome = draw(8)
    if (outcome < failsMax) {
      if (outcome === 0) await rig.exports.leases.release(lease, now + draw(3 * hourMs), { isProgress: false })
      else await rig.exports.leases.fail(lease, 'text', now)
      failures++
      return true
    }
    const { receivedFrom, receivedUntil } = lease.job
    const range: [number, number] = [receivedFrom ?? 0, receivedUntil ?? 0]
    await rig.exports.complete(lease, { rows: 1, bytes: 1, etag: 'e', expiresAt: now + 7 * dayMs }, now)
    // A run that is made again has the range that it had.
    expect(files.get(lease.id) ?? range).toStrictEqual(range)
    files.set(lease.id, range)
    return true
  }

  for (let n = 0; n < 210; n++) {
    const now = exportedAt + n * hourMs
    received.push(now - draw(hourMs), now - draw(hourMs))
    await workAt(now)
    for (let works = draw(4); works > 0; works--) await work(now, 4)
    if (draw(20) === 0) await rig.exports.withdraw(siteId, now)
  }
  const end = exportedAt + 300 * hourMs
  await workAt(end)
  for (let now = end; now < end + 10 * hourMs; now += hourMs) while (await work(now, 0)) continue
  expect(failures).toBeGreaterThan(50)
  const filesWith = (at: number) => [...files.values()].filter(([from, until]) => from <= at && at < until).length
  expect(received.filter((at) => filesWith(at) !== 1)).toStrictEqual([])
  await rig.exports.delete(exportId, null)
})

/** Draws integers below `max`, the same ones each time. */
function drawing(): (max: number) => number {
  let state = 14
  return (max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * max)
  }
}

test('the record of a run goes 90 days after its end, but for the latest run and those with a file', async () => {
  const { exportId } = await schedule({ type: 'users' }, exportedAt)
  for (let n = 0; n < 5; n++) await workAt(exportedAt + n * hourMs)
  const [expired, failed, completed, recent, latest] = (await runsOf(exportId)).map((run) => run.exportId)
  const end = async (run: string | undefined, status: ExportStatus, finishedAt: number): Promise<void> => {
    await rig.postgres.db
      .updateTable('exports')
      .set({ status, finished_at: new Date(finishedAt), due_at: null })
      .where('export_id', '=', run ?? '')
      .execute()
  }
  const now = Date.now()
  await end(expired, 'expired', now - 90 * dayMs)
  await end(failed, 'failed', now - 90 * dayMs)
  await end(completed, 'completed', now - 90 * dayMs)
  await end(recent, 'expired', now - 90 * dayMs + 1)
  await end(latest, 'failed', now - 90 * dayMs)
  await removeUnneededExportFiles({ exports: rig.exports, blobs: rig.blobs, clock: { now: () => now } })
  expect((await runsOf(exportId)).map((run) => run.exportId)).toStrictEqual([completed, recent, latest])
  await rig.exports.delete(exportId, null)
})
