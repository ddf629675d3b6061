import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { chunksOf, type Harness, listAll, mebibyte, readAll, uploadsOf } from './harness.ts'

/** Less and more than what is sent in one request of S3. */
const lengths = { small: 100_000, large: 20 * mebibyte }

export function describeWriting({ createPlace, open, openNew, startProcess }: Harness): void {
  describe('writing', () => {
    test.each([0, 1, lengths.small, 8 * mebibyte, 16 * mebibyte, lengths.large + 1])('%d bytes', async (length) => {
      const store = await openNew()
      const content = randomBytes(length)
      expect(await store.write('a/b.gz', chunksOf(content))).toEqual({ bytes: length })
      expect(await store.size('a/b.gz')).toBe(length)
      expect((await readAll(store, 'a/b.gz')).equals(content)).toBe(true)
      expect(await uploadsOf(store)).toEqual([])
    })

    test('takes streams, and chunks of any length', async () => {
      const store = await openNew()
      const content = randomBytes(40 * mebibyte)
      await store.write('stream', Readable.from(content))
      expect((await readAll(store, 'stream')).equals(content)).toBe(true)
      await store.write('chunks', Readable.from([content.subarray(0, 1), Buffer.alloc(0), content.subarray(1)]))
      expect((await readAll(store, 'chunks')).equals(content)).toBe(true)
    })

    test('replaces the blob of that name, by a shorter or a longer one', async () => {
      const store = await openNew()
      for (const length of [lengths.small, lengths.large, 3]) {
        const content = randomBytes(length)
        await store.write('a', chunksOf(content))
        expect((await readAll(store, 'a')).equals(content)).toBe(true)
      }
      expect(await listAll(store)).toMatchObject([{ name: 'a', bytes: 3 }])
    })

    describe.each(Object.entries(lengths))('%s content', (_, length) => {
      test('that fails leaves nothing, and an earlier blob as it is', async () => {
        const store = await openNew()
        const failure = new Error('the sender is gone')
        const failing = async function* () {
          yield* chunksOf(randomBytes(length))
          throw await Promise.resolve(failure)
        }
        await expect(store.write('new', failing())).rejects.toBe(failure)
        await store.write('old', [Buffer.from('before')])
        await expect(store.write('old', failing())).rejects.toBe(failure)
        expect((await readAll(store, 'old')).toString()).toBe('before')
        expect(await listAll(store)).toMatchObject([{ name: 'old' }])
        expect(await uploadsOf(store)).toEqual([])
      })

      test('that waits ends when the signal is aborted, and leaves nothing', async () => {
        const store = await openNew()
        const abort = new AbortController()
        const reason = new Error('cancelled')
        let isWaiting = false
        const waiting = async function* () {
          yield* chunksOf(randomBytes(length))
          isWaiting = true
          await new Promise(() => undefined)
        }
        const writing = expect(store.write('a', waiting(), { signal: abort.signal })).rejects.toBe(reason)
        await waitUntil(() => isWaiting, 'the content waits')
        abort.abort(reason)
        await writing
        expect(await listAll(store)).toEqual([])
        expect(await uploadsOf(store)).toEqual([])
      })

      test('is closed when the signal is aborted, and is not read when it was aborted before', async () => {
        const store = await openNew()
        const abort = new AbortController()
        const reason = new Error('cancelled')
        let chunks = 0
        let isClosed = false
        const endless = async function* () {
          try {
            for (;;) {
              yield await Promise.resolve(Buffer.alloc(65_536))
              if (++chunks * 65_536 > length) abort.abort(reason)
            }
          } finally {
            isClosed = true
          }
        }
        await expect(store.write('a', endless(), { signal: abort.signal })).rejects.toBe(reason)
        await waitUntil(() => isClosed, 'the content is closed')
        chunks = 0
        await expect(store.write('a', endless(), { signal: abort.signal })).rejects.toBe(reason)
        expect(chunks).toBe(0)
        expect([await listAll(store), await uploadsOf(store)]).toEqual([[], []])
      })

      test('of one of several concurrent writers of a name wins as a whole', async () => {
        const place = createPlace()
        const stores = await Promise.all([open(place), open(place), open(place), open(place)])
        const contents = stores.map((_store, n) => Buffer.alloc(length + n, n))
        await Promise.all(stores.map((store, n) => store.write('a', chunksOf(contents[n] ?? Buffer.alloc(0)))))
        const stored = await readAll(await open(place), 'a')
        expect(contents.filter((content) => content.equals(stored))).toHaveLength(1)
        expect(await uploadsOf(await open(place))).toEqual([])
      })
    })

    test('by a process that is killed leaves an upload at most, which another one can drop', async () => {
      const place = createPlace()
      const store = await open(place)
      await store.write('hanging', chunksOf(Buffer.from('before')))
      const { message, kill } = startProcess(place, 'hang')
      await message
      await kill()
      expect((await readAll(store, 'hanging')).toString()).toBe('before')
      const uploads = await uploadsOf(store)
      expect(uploads).toMatchObject([{ name: 'hanging' }])
      for (const upload of uploads) await store.abortMultipartUpload(upload)
      expect(await uploadsOf(store)).toEqual([])
      expect(await listAll(store)).toMatchObject([{ name: 'hanging', bytes: 6 }])
    })

    test('and reading 256 MiB needs constant memory', async () => {
      const { message } = startProcess(createPlace(), 'memory')
      const { growth } = await message
      expect(growth).toBeLessThan(48)
    })

    test.each([
      '',
      '/a',
      'a/',
      'a//b',
      '..',
      'a/../b',
      'a..b',
      '.a',
      'a/.b',
      'a b',
      'a\\b',
      'ä',
      'a\n',
      'a~b',
      'a'.repeat(201),
    ])('refuses the name %j', async (name) => {
      const store = await openNew()
      const upload = { name, uploadId: '1-a' }
      const part = { n: 1, etag: 'a', bytes: 1 }
      const calls = [
        store.write(name, chunksOf(Buffer.from('a'))),
        store.read(name),
        store.size(name),
        store.remove(['a', name]),
        store.createMultipartUpload(name),
        store.uploadPart(upload, 1, Buffer.from('a')),
        store.completeMultipartUpload(upload, [part]),
        store.abortMultipartUpload(upload),
        ...(name === '' || name === 'a/' ? [] : [listAll(store, name)]),
      ]
      for (const result of await Promise.allSettled(calls)) {
        expect(result).toMatchObject({ status: 'rejected', reason: expect.any(TypeError) })
      }
    })
  })
}
