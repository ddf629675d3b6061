import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { describeBlobStore } from '../conformance/conformance.ts'
import { chunksOf, listAll } from '../conformance/harness.ts'
import { openBlobStore } from '../open-blob-store.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-blobs-'))
let stores = 0

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

describeBlobStore('a folder', {
  createPlace: () => ({ url: `file:${join(root, String(stores++), 'blobs')}`, options: {} }),
})

test('files of others are not listed, nor are folders entered whose names are no blobs’: lost+found of a disk', async () => {
  const folder = join(root, 'others')
  mkdirSync(join(folder, 'lost+found'), { recursive: true })
  for (const name of ['lost+found/a', 'my report.csv']) writeFileSync(join(folder, name), '')
  const store = await openBlobStore(`file:${folder}`)
  await store.write('a', chunksOf(Buffer.from('x')))
  expect(await listAll(store)).toMatchObject([{ name: 'a' }])
  await store.close()
})
