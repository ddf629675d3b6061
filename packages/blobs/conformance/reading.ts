import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import * as fc from 'fast-check'
import { chunksOf, type Harness, mebibyte, readAll } from './harness.ts'

export function describeReading({ openNew }: Harness): void {
  describe('reading', () => {
    test('any range gives the bytes that are there', async () => {
      const store = await openNew()
      const content = randomBytes(300_000)
      await store.write('a', chunksOf(content))
      const offset = fc.oneof(fc.nat(content.length - 1), fc.nat(2), fc.constant(content.length - 1))
      const length = fc.oneof(fc.nat(content.length * 2), fc.nat(2), fc.constant(Number.MAX_SAFE_INTEGER - 300_000))
      await fc.assert(
        fc.asyncProperty(offset, length, async (start, more) => {
          const range = { start, end: start + more }
          expect((await readAll(store, 'a', range)).equals(content.subarray(start, range.end + 1))).toBe(true)
        }),
        { numRuns: 50 },
      )
    })

    test('a range across the parts of a large blob', async () => {
      const store = await openNew()
      const content = randomBytes(20 * mebibyte)
      await store.write('a', chunksOf(content))
      const range = { start: 8 * mebibyte - 10, end: 16 * mebibyte + 10 }
      expect((await readAll(store, 'a', range)).equals(content.subarray(range.start, range.end + 1))).toBe(true)
    })

    test('a range that begins at the end or later is an error of its own', async () => {
      const store = await openNew()
      await store.write('a', chunksOf(Buffer.from('abc')))
      await store.write('empty', chunksOf(Buffer.alloc(0)))
      for (const [name, start] of [
        ['a', 3],
        ['a', 1_000_000],
        ['empty', 0],
      ] as const) {
        await expect(store.read(name, { start, end: start + 1 })).rejects.toMatchObject({
          code: 'range_not_satisfiable',
        })
      }
    })

    test.each([
      { start: -1, end: 1 },
      { start: 2, end: 1 },
      { start: 0.5, end: 1 },
      { start: 0, end: Infinity },
    ])('%j is refused', async (range) => {
      const store = await openNew()
      await expect(store.read('a', range)).rejects.toThrow(TypeError)
    })

    test('a name without a blob is not found, also when it is a folder of others', async () => {
      const store = await openNew()
      await store.write('a/b', chunksOf(Buffer.from('abc')))
      for (const name of ['c', 'a', 'a/b/c']) {
        await expect(store.read(name)).rejects.toMatchObject({ code: 'not_found', retryable: false })
        await expect(store.read(name, { start: 0, end: 1 })).rejects.toMatchObject({ code: 'not_found' })
        expect(await store.size(name)).toBeUndefined()
      }
    })

    test('may stop anywhere', async () => {
      const store = await openNew()
      await store.write('a', chunksOf(randomBytes(20 * mebibyte)))
      for (let n = 0; n < 100; n++) {
        const stream = await store.read('a')
        await once(stream, 'readable')
        stream.destroy()
        await once(stream, 'close')
      }
      expect(await store.size('a')).toBe(20 * mebibyte)
    })
  })
}
