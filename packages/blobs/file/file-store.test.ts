import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { describeBlobStore } from '../conformance/conformance.ts'
import { chunksOf, listAll } from '../conformance/harness.ts'
import { openBlobStore } from '../open-blob-store.ts'
import { partBytesMin } from '../part-bytes.ts'

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

test('only the user of the process may read blobs and enter their folders', async () => {
  const folder = join(root, 'private')
  const store = await openBlobStore(`file:${folder}`)
  await store.write('imports/a', chunksOf(Buffer.from('x')))
  const modeOf = (name: string) => (statSync(join(folder, name)).mode & 0o777).toString(8)
  expect([modeOf('imports'), modeOf('imports/a')]).toStrictEqual(['700', '600'])
  await store.close()
})

test('parts that do not have the lengths that were recorded make no blob', async () => {
  const store = await openBlobStore(`file:${join(root, 'lengths')}`)
  const upload = await store.createMultipartUpload('a')
  const { etag } = await store.uploadPart(upload, 1, Buffer.from('12345'))
  await expect(store.completeMultipartUpload(upload, [{ n: 1, etag, bytes: 6 }])).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(await store.size('a')).toBeUndefined()
  await store.completeMultipartUpload(upload, [{ n: 1, etag, bytes: 5 }])
  expect(await store.size('a')).toBe(5)
  await store.close()
})

test('an upload whose process was killed while it removed the parts is completed again', async () => {
  const folder = join(root, 'killed')
  const store = await openBlobStore(`file:${folder}`)
  const upload = await store.createMultipartUpload('a')
  const one = await store.uploadPart(upload, 1, Buffer.alloc(partBytesMin))
  const two = await store.uploadPart(upload, 2, Buffer.from('678'))
  const complete = () =>
    store.completeMultipartUpload(upload, [
      { n: 1, ...one, bytes: partBytesMin },
      { n: 2, ...two, bytes: 3 },
    ])
  const leaveSecondPart = () => {
    const parts = join(folder, '.uploads', `${upload.uploadId}~a`)
    mkdirSync(parts)
    writeFileSync(join(parts, `2-${two.etag}`), '678')
  }
  await complete()
  leaveSecondPart()
  await complete()
  expect([await store.size('a'), readdirSync(join(folder, '.uploads'))]).toStrictEqual([partBytesMin + 3, []])
  await store.write('a', chunksOf(Buffer.from('another')))
  leaveSecondPart()
  await expect(complete()).rejects.toMatchObject({ code: 'conflict' })
  expect(await store.size('a')).toBe(7)
  await store.close()
})
