import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { ImportType } from '@sluice/contracts/imports'
import { addExport } from '../../tests/support/export-jobs.ts'
import { addImport, segmentDone } from '../../tests/support/import-jobs.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { isEmptyPostgres, reconcile } from './after-restore.ts'
import { exportStore } from './exports.ts'
import { type ImportStore, importStore } from './imports.ts'
import { shardStore } from './shards.ts'

const noon = Date.UTC(2024, 4, 15, 12)

let postgres: TestPostgres
let store: ImportStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = importStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

/** An import with one of two segments done, and one that ended at noon; returns their ids. */
async function addImports(type: ImportType): Promise<{ underWay: string; ended: string }> {
  const { importId: underWay } = await addImport(store, { type, segments: 2 }, noon - 2)
  const { importId: ended } = await addImport(store, { type }, noon - 1)
  for (const lease of await store.leases.take(noon, 2)) {
    await store.recordSegment(lease, 0, segmentDone)
    if (lease.id === ended) await store.complete(lease, noon)
  }
  return { underWay, ended }
}

test('imports of users after the backup are repeated, and with a log that lacks events those of events, too', async () => {
  const users = await addImports('users')
  const events = await addImports('events')
  const processed = async ({ underWay }: { underWay: string }) =>
    (await store.segments(underWay)).map((segment) => segment.processed)

  expect(await reconcile(postgres, { at: noon, withEventImports: false })).toMatchObject({
    repeatedImports: [users.underWay],
    lostImports: [users.ended],
  })
  expect(await processed(users)).toStrictEqual([0, 0])
  expect(await processed(events)).toStrictEqual([segmentDone.processed, 0])

  expect(await reconcile(postgres, { at: noon, withEventImports: true })).toMatchObject({
    repeatedImports: [users.underWay, events.underWay].sort(),
    lostImports: [users.ended, events.ended].sort(),
  })
  expect(await processed(events)).toStrictEqual([0, 0])
})

test('the file of an export that is under way begins again', async () => {
  const exports = exportStore(postgres)
  const { exportId } = await addExport(exports, {}, noon)
  const [lease] = await exports.leases.take(noon, 1)
  if (!lease) throw new Error('no export is due')
  await exports.beginFile(lease, { object: 'exports/a', uploadId: 'upload' })
  const part = { n: 1, bytes: 5, etag: 'a' }
  await exports.recordParts(lease, { parts: [part], afterKey: [noon, 'e', 'prod'], rows: 1, progress: 50 })
  expect(await exports.parts(exportId)).toHaveLength(1)

  await reconcile(postgres, { at: noon, withEventImports: false })
  expect(await exports.find(exportId, null)).toMatchObject({ uploadId: null, afterKey: null, rows: 0, progress: 0 })
  expect(await exports.parts(exportId)).toStrictEqual([])
})

test('a reshard that had begun at the time of the dump has to begin again, because it may have been cancelled since', async () => {
  const shards = shardStore(postgres)
  await shards.record(1)
  await shards.startDoubling()
  expect(await shards.readState()).toStrictEqual({ number: 1, doublingSince: expect.any(Number) })
  await reconcile(postgres, { at: noon, withEventImports: false })
  expect(await shards.readState()).toStrictEqual({ number: 1, doublingSince: null })
})

test('a database with relations of an extension alone is empty', async () => {
  const restored = await openTestPostgres({ migrated: false })
  await sql`CREATE VIEW statements AS SELECT 1`.execute(restored.db)
  expect(await isEmptyPostgres(restored)).toBe(false)
  await sql`ALTER EXTENSION plpgsql ADD VIEW statements`.execute(restored.db)
  expect(await isEmptyPostgres(restored)).toBe(true)
  await restored.drop()
})
