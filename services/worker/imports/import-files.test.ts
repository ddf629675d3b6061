import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { importStore } from '@sluice/postgres/imports'
import { newId } from '@sluice/runtime/ids'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { uploadFile } from '../../../tests/support/uploaded-import.ts'
import { removeUnneededImportFiles } from './import-files.ts'

const dayMs = 86_400_000
let postgres: TestPostgres
let folder: string
let blobs: BlobStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  folder = await mkdtemp(join(tmpdir(), 'sluice-files-'))
  blobs = await openBlobStore(`file:${folder}`)
})

afterAll(async () => {
  await blobs.close()
  await postgres.drop()
  await rm(folder, { recursive: true })
})

async function write(name: string): Promise<void> {
  await blobs.write(name, [Buffer.from('x')])
}

/** Names of the blobs after a removal so many days from now. */
async function leftAfter(days: number): Promise<string[]> {
  const clock = { now: () => Date.now() + days * dayMs }
  await removeUnneededImportFiles({ blobs, imports: importStore(postgres), clock })
  const names: string[] = []
  for await (const { name } of blobs.list('')) names.push(name)
  return names.sort()
}

async function uploads(): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const upload of blobs.listMultipartUploads()) found.push(upload)
  return found
}

test('files go when nobody needs them any more, and no earlier, by a compared clock', async () => {
  const imports = importStore(postgres)
  const [waiting, cancelled] = await Promise.all(
    [1, 2].map(() => uploadFile({ imports, blobs }, ['{"event_type":"view","timestamp_ms":1700000000000}'])),
  )
  if (!waiting || !cancelled) throw new Error('two imports')
  await imports.cancel(cancelled.importId, null, Date.now())
  const errors = `imports/${cancelled.importId}/errors/0`
  const segment = `imports/${waiting.importId}/segments/0`
  const lost = `imports/${newId('imp')}/segments`
  const ofOthers = ['exports/other/1', 'imports/2024/01/errors.csv']
  for (const name of [errors, `${lost}/0`, ...ofOthers]) await write(name)
  const { uploadId } = await blobs.createMultipartUpload(`${lost}/1`)
  const other = await blobs.createMultipartUpload('exports/other')
  // The upload of a process that was killed while it checked the store.
  await blobs.createMultipartUpload('check')

  const isAhead = { now: () => Date.now() + 100 * dayMs, isCompared: () => false }
  await expect(removeUnneededImportFiles({ blobs, imports, clock: isAhead })).rejects.toMatchObject({
    code: 'unavailable',
  })
  expect(await leftAfter(0)).toStrictEqual([...ofOthers, errors, `${lost}/0`, segment].sort())
  expect(await uploads()).toHaveLength(3)
  expect(await uploads()).toContainEqual(expect.objectContaining({ uploadId }))
  expect(await leftAfter(1.1)).toStrictEqual([...ofOthers, errors, segment].sort())
  expect(await uploads()).toMatchObject([other])
  expect(await leftAfter(31)).toStrictEqual([...ofOthers, segment].sort())
})
