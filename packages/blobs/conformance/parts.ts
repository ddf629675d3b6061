import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import type { BlobStore, MultipartUpload, UploadedPart } from '../blob-store.ts'
import { collect, type Harness, listAll, mebibyte, readAll, uploadsOf } from './harness.ts'

const partBytes = 5 * mebibyte

export function describeParts({ createPlace, open, openNew }: Harness): void {
  /** Writes a part, and returns it in the form that completeMultipartUpload needs. */
  const write = async (
    store: BlobStore,
    upload: MultipartUpload,
    n: number,
    content: Buffer,
  ): Promise<UploadedPart> => {
    const { etag } = await store.uploadPart(upload, n, content)
    return { n, etag, bytes: content.length }
  }

  describe('a blob in parts', () => {
    test('is begun by one store, continued by another and completed by a third', async () => {
      const place = createPlace()
      const contents = [randomBytes(partBytes), randomBytes(partBytes + 1), randomBytes(7)] as const
      const begun = Date.now()
      const [first, second, third] = [await open(place), await open(place), await open(place)]
      const upload = await first.createMultipartUpload('exports/a.csv')
      const parts = [await write(first, upload, 1, contents[0])]
      parts.push(...(await Promise.all([write(second, upload, 7, contents[1]), write(second, upload, 9, contents[2])])))

      expect(await listAll(third)).toEqual([])
      expect(await third.size('exports/a.csv')).toBeUndefined()
      const [listed] = await collect(third.listMultipartUploads())
      expect(listed).toEqual({ ...upload, startedAt: expect.any(Number) })
      expect(Math.abs((listed?.startedAt ?? 0) - begun)).toBeLessThan(10_000)

      await third.completeMultipartUpload(upload, parts)
      expect((await readAll(first, 'exports/a.csv')).equals(Buffer.concat(contents))).toBe(true)
      expect(await uploadsOf(first)).toEqual([])
    })

    test('has the last content of a part that was written twice', async () => {
      const store = await openNew()
      const upload = await store.createMultipartUpload('a')
      const last = await write(store, upload, 2, Buffer.from('end'))
      await write(store, upload, 1, Buffer.alloc(partBytes + 1, 'a'))
      const replaced = await write(store, upload, 1, Buffer.alloc(partBytes, 'b'))
      await write(store, upload, 3, Buffer.from('not named'))
      await store.completeMultipartUpload(upload, [replaced, last])
      expect(
        (await readAll(store, 'a')).equals(Buffer.concat([Buffer.alloc(partBytes, 'b'), Buffer.from('end')])),
      ).toBe(true)
    })

    test('replaces the blob of that name when it is completed, which may be repeated', async () => {
      const store = await openNew()
      const content = Buffer.from('after')
      const upload = await store.createMultipartUpload('a')
      const parts = [await write(store, upload, 1, content)]
      const other = await store.createMultipartUpload('a')
      await store.completeMultipartUpload(other, [await write(store, other, 1, Buffer.from('before'))])
      await Promise.all([store.completeMultipartUpload(upload, parts), store.completeMultipartUpload(upload, parts)])
      await store.completeMultipartUpload(upload, parts)
      expect((await readAll(store, 'a')).toString()).toBe('after')
      await store.abortMultipartUpload(upload)
      expect((await readAll(store, 'a')).toString()).toBe('after')
    })

    test('leaves nothing when it is aborted', async () => {
      const place = createPlace()
      const store = await open(place)
      const upload = await store.createMultipartUpload('a')
      const kept = await store.createMultipartUpload('a')
      const parts = [await write(store, upload, 1, randomBytes(partBytes))]
      await (await open(place)).abortMultipartUpload(upload)
      expect(await uploadsOf(store)).toEqual([kept])
      await expect(store.uploadPart(upload, 2, Buffer.from('late'))).rejects.toMatchObject({ code: 'conflict' })
      await expect(store.completeMultipartUpload(upload, parts)).rejects.toMatchObject({ code: 'conflict' })
      await store.abortMultipartUpload(upload)
      await store.abortMultipartUpload(kept)
      expect([await uploadsOf(store), await listAll(store)]).toEqual([[], []])
    })

    test('is not completed without one of its parts', async () => {
      const store = await openNew()
      const upload = await store.createMultipartUpload('a')
      const part = await write(store, upload, 1, randomBytes(partBytes))
      const missing = { n: 2, etag: part.etag, bytes: 1 }
      await expect(store.completeMultipartUpload(upload, [part, missing])).rejects.toMatchObject({ code: 'conflict' })
      expect(await listAll(store)).toEqual([])
      await store.completeMultipartUpload(upload, [part])
      expect(await store.size('a')).toBe(partBytes)
    })

    test('is refused when S3 could not complete it', async () => {
      const store = await openNew()
      const upload = await store.createMultipartUpload('a')
      const part = await write(store, upload, 1, Buffer.from('small'))
      const large = { ...part, bytes: partBytes }
      for (const n of [0, 10_001, 1.5]) {
        await expect(store.uploadPart(upload, n, Buffer.from('a'))).rejects.toThrow(TypeError)
        await expect(store.completeMultipartUpload(upload, [{ ...part, n }])).rejects.toThrow(TypeError)
      }
      for (const parts of [[], [part, { ...part, n: 2 }], [large, large], [{ ...large, n: 2 }, part]]) {
        await expect(store.completeMultipartUpload(upload, parts)).rejects.toThrow(TypeError)
      }
      await store.completeMultipartUpload(upload, [part])
    })
  })
}
