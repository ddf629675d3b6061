import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '@sluice/runtime/ids'
import { addExport } from '../../tests/support/export-jobs.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type ExportStore, exportStore } from './exports.ts'
import { reconcileExports } from './reconcile-exports.ts'

const noon = Date.UTC(2042, 5, 1, 12)
const hourMs = 3_600_000
const spec = { type: 'events', format: 'csv', environment: 'prod', csv_safe: true } as const

let postgres: TestPostgres
let store: ExportStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = exportStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

/** Completes what is due at `at`, with a file at `object` that expires a day later; returns its id. */
async function complete(object: string, at: number): Promise<string> {
  const [lease] = await store.leases.take(at, 1)
  if (lease === undefined) throw new Error('nothing is due')
  await store.beginFile(lease, { object, uploadId: 'upload' })
  await store.complete(lease, { rows: 9, bytes: 70, etag: 'abc', expiresAt: at + 24 * hourMs }, at)
  await store.leases.release(lease, null, { isProgress: true })
  return lease.id
}

async function completeRun(object: string, at: number): Promise<string> {
  const [schedule] = await store.schedules.take(at, 1)
  if (schedule === undefined) throw new Error('no schedule is due')
  const receipt = { firstFrom: at - hourMs, completeUntil: at }
  await store.createRun(schedule, { exportId: newId('exp'), spec, receipt, nextRun: at + hourMs }, at)
  await store.schedules.release(schedule, at + hourMs, { isProgress: true })
  return complete(object, at)
}

test('of the completed exports without a file, runs by time of receipt are made again, and the others have expired', async () => {
  await addExport(store, { site: 'shop' }, noon)
  const kept = await complete('kept', noon)
  await addExport(store, { site: 'shop' }, noon)
  const lost = await complete('lost', noon)
  await addExport(store, { site: 'shop', spec, scheduled: { frequency: 'hourly', nextRun: noon, paused: false } }, noon)
  const early = await completeRun('lost-early', noon)
  const run = await completeRun('lost-run', noon + hourMs)
  const at = noon + 24 * hourMs

  expect(await reconcileExports(postgres, ['kept', 'others'], at)).toStrictEqual({
    repeatedRuns: [run],
    expiredExports: [lost, early].sort(),
  })
  expect(await store.find(kept, null)).toMatchObject({ status: 'completed', object: 'kept' })
  const error = 'A restore lost the file. Export it again.'
  expect(await store.find(lost, null)).toMatchObject({ status: 'expired', error })
  expect(await store.find(run, null)).toMatchObject({ status: 'queued', rows: 0, expiresAt: at + hourMs })
  expect((await store.leases.take(at, 10)).map(({ id }) => id)).toStrictEqual([run])
  expect(await reconcileExports(postgres, ['kept', 'others'], at)).toStrictEqual({
    repeatedRuns: [],
    expiredExports: [],
  })
})
