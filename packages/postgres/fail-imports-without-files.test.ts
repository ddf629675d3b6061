import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { addImport, segmentDone } from '../../tests/support/import-jobs.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { failImportsWithoutFiles } from './fail-imports-without-files.ts'
import { type ImportStore, importStore } from './imports.ts'

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

/** Adds an import of two segments whose first is recorded; returns its id and the blobs of its segments. */
async function addHalfDone(type: 'events' | 'users'): Promise<{ importId: string; objects: string[] }> {
  const { importId } = await addImport(store, { type, segments: 2 }, noon)
  const [lease] = await store.leases.take(noon, 1)
  if (lease?.id !== importId) throw new Error('another import is due')
  await store.recordSegment(lease, 0, segmentDone)
  return { importId, objects: (await store.segments(importId)).map(({ object }) => object) }
}

test('an import fails when the file of a segment that is not processed is missing, whatever its type', async () => {
  const [kept, lost, users] = [await addHalfDone('events'), await addHalfDone('events'), await addHalfDone('users')]
  const { importId: ended } = await addImport(store, {}, noon)
  const [lease] = await store.leases.take(noon, 1)
  if (lease?.id !== ended) throw new Error('another import is due')
  await store.recordSegment(lease, 0, segmentDone)
  await store.complete(lease, noon)

  // The first segment of `kept` is processed, so that nobody reads its file again.
  const files = [...kept.objects.slice(1), ...lost.objects.slice(0, 1), 'exports/a']
  const at = noon + 1_000
  expect(await failImportsWithoutFiles(postgres, files, at)).toStrictEqual([lost.importId, users.importId].sort())
  const failed = { status: 'failed', error: expect.stringContaining('Import it again'), finishedAt: at }
  expect(await store.find(lost.importId, null)).toMatchObject(failed)
  expect(await store.find(users.importId, null)).toMatchObject(failed)
  expect(await store.find(kept.importId, null)).toMatchObject({ status: 'processing' })
  expect(await store.find(ended, null)).toMatchObject({ status: 'completed' })
  // Only the import that continues is due, after the lease of its worker has ended.
  const later = await store.leases.take(noon + 3_600_000, 9)
  expect(later.map(({ id }) => id)).toStrictEqual([kept.importId])
  expect(await failImportsWithoutFiles(postgres, files, at)).toStrictEqual([])
})
