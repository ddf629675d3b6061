import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { describeWith } from '../../../tests/support/describe-with.ts'
import { canMountTmpfs, mountRight, mountTmpfs, unmount } from '../../../tests/support/tmpfs.ts'
import type { BlobStore } from '../blob-store.ts'
import { chunksOf, collect, listAll, mebibyte, readAll, uploadsOf } from '../conformance/harness.ts'
import { openBlobStore } from '../open-blob-store.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-blobs-'))
const disk = join(root, 'disk')
mkdirSync(disk)

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

describeWith(mountRight, canMountTmpfs())('a small disk', () => {
  let store: BlobStore
  const full = {
    code: 'unavailable',
    retryable: true,
    internal: expect.stringMatching(/SLUICE_BLOBS_URL.* is full: ENOSPC/),
  }

  beforeEach(async () => {
    mountTmpfs(disk, 'size=16m')
    store = await openBlobStore(`file:${disk}`)
  })

  afterEach(() => unmount(disk))

  test('that is full: a blob is not stored at all, and the others stay', async () => {
    await store.write('old', chunksOf(Buffer.from('before')))
    for (const name of ['new', 'old']) {
      await expect(store.write(name, chunksOf(randomBytes(20 * mebibyte)))).rejects.toMatchObject(full)
    }
    expect((await readAll(store, 'old')).toString()).toBe('before')
    expect(await listAll(store)).toHaveLength(1)
    expect(await uploadsOf(store)).toEqual([])
    await store.write('new', chunksOf(randomBytes(10 * mebibyte)))
  })

  test('that is full: an upload can be completed when there is room', async () => {
    await store.write('old', chunksOf(randomBytes(3 * mebibyte)))
    const upload = await store.createMultipartUpload('a')
    const content = randomBytes(5 * mebibyte)
    const parts = []
    for (const n of [1, 2]) parts.push({ n, ...(await store.uploadPart(upload, n, content)), bytes: content.length })
    const before = await store.disk()
    await expect(store.uploadPart(upload, 3, content)).rejects.toMatchObject(full)
    await expect(store.completeMultipartUpload(upload, parts)).rejects.toMatchObject(full)
    expect(await store.size('a')).toBeUndefined()
    // What did not fit leaves its room to others.
    expect(await store.disk()).toStrictEqual(before)
    execFileSync('mount', ['-o', 'remount,size=64m', disk])
    await store.completeMultipartUpload(upload, parts)
    expect((await readAll(store, 'a')).equals(Buffer.concat([content, content]))).toBe(true)
    expect(await uploadsOf(store)).toEqual([])
  })

  test('that is full: the check fails', async () => {
    await store.check()
    expect(() => writeFileSync(join(disk, 'filler'), Buffer.alloc(20 * mebibyte))).toThrow('ENOSPC')
    await expect(store.check()).rejects.toMatchObject(full)
    rmSync(join(disk, 'filler'))
    await store.check()
  })

  test('that may not be written to is reported with the variable to check', async () => {
    await store.write('old', chunksOf(Buffer.from('before')))
    execFileSync('mount', ['-o', 'remount,ro', disk])
    const internal = expect.stringContaining('SLUICE_BLOBS_URL')
    const refused = { code: 'internal', retryable: false, needsOperator: true, internal }
    await expect(store.write('a', chunksOf(Buffer.from('x')))).rejects.toMatchObject(refused)
    await expect(store.remove(['old'])).rejects.toMatchObject(refused)
    await expect(store.createMultipartUpload('a')).rejects.toMatchObject(refused)
    await expect(store.check()).rejects.toMatchObject(refused)
    expect((await readAll(store, 'old')).toString()).toBe('before')
  })

  test('that is not mounted any more: nothing is written to the folder below', async () => {
    unmount(disk)
    const away = { code: 'unavailable', retryable: true, internal: expect.stringContaining('SLUICE_BLOBS_URL') }
    await expect(store.write('a', chunksOf(Buffer.from('x')))).rejects.toMatchObject(away)
    await expect(store.check()).rejects.toMatchObject(away)
    await expect(collect(store.listMultipartUploads())).rejects.toMatchObject(away)
    mountTmpfs(disk, 'size=1m')
  })
})

describe.each([
  ['missing', () => undefined],
  // What is left of a volume that is not mounted.
  ['empty', (folder: string) => mkdirSync(folder)],
])('a folder that is %s for a moment', (state, leave) => {
  const folder = join(root, state)
  const away = { code: 'unavailable', retryable: true, internal: expect.stringContaining('SLUICE_BLOBS_URL') }

  test('has no blob that counts as missing or removed, and all of them when it is back', async () => {
    const store = await openBlobStore(`file:${folder}`)
    await store.write('a/b', chunksOf(Buffer.from('before')))
    const upload = await store.createMultipartUpload('c')
    const content = Buffer.from('part')
    const part = { n: 1, ...(await store.uploadPart(upload, 1, content)), bytes: content.length }
    renameSync(folder, `${folder}-aside`)
    leave(folder)
    for (const step of [
      () => store.read('a/b'),
      () => store.size('a/b'),
      () => store.remove(['a/b']),
      () => listAll(store),
      () => store.uploadPart(upload, 2, content),
      () => store.completeMultipartUpload(upload, [part]),
      () => store.abortMultipartUpload(upload),
    ]) {
      await expect(step()).rejects.toMatchObject(away)
    }
    rmSync(folder, { recursive: true, force: true })
    renameSync(`${folder}-aside`, folder)
    await store.completeMultipartUpload(upload, [part])
    expect((await readAll(store, 'a/b')).toString()).toBe('before')
    expect((await readAll(store, 'c')).toString()).toBe('part')
  })
})

describe('a folder', () => {
  test('that can’t be created is reported with the variable to check', async () => {
    const file = join(root, 'file')
    writeFileSync(file, '')
    await expect(openBlobStore(`file:${join(file, 'blobs')}`)).rejects.toMatchObject({
      code: 'internal',
      internal: expect.stringContaining('SLUICE_BLOBS_URL'),
    })
  })

  test('that has another thing in the place of a blob is reported, and the blob is not stored', async () => {
    const store = await openBlobStore(`file:${join(root, 'strange')}`)
    mkdirSync(join(root, 'strange', 'a', 'b'), { recursive: true })
    const strange = { code: 'internal', internal: expect.stringContaining('something else') }
    await expect(store.write('a', chunksOf(Buffer.from('x')))).rejects.toMatchObject(strange)
    expect(await uploadsOf(store)).toEqual([])
  })

  test('may hold files of others among the uploads, which are not listed', async () => {
    const store = await openBlobStore(`file:${join(root, 'others')}`)
    writeFileSync(join(root, 'others', '.uploads', 'lost+found'), '')
    writeFileSync(join(root, 'others', '.hidden'), '')
    expect([await uploadsOf(store), await listAll(store)]).toEqual([[], []])
  })
})
