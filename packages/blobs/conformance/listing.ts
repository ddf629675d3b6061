import { describe, expect, test } from '@jest/globals'
import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { chunksOf, collect, type Harness, listAll, mebibyte } from './harness.ts'

export function describeListing({ createPlace, open, openNew }: Harness): void {
  describe('listing', () => {
    test('has more names than fit on a page, and all can be removed', async () => {
      const store = await openNew()
      const names = Array.from({ length: 1_100 }, (_, n) => `many/${Math.floor(n / 600)}/${n}`).sort()
      const limit = concurrencyLimit(16)
      await Promise.all(names.map((name) => limit(() => store.write(name, chunksOf(Buffer.from(name))))))
      await store.write('other', chunksOf(Buffer.from('stays')))

      expect((await listAll(store, 'many/')).map(({ name }) => name)).toEqual(names)
      await store.remove([...names, 'never/was'])
      expect(await listAll(store)).toMatchObject([{ name: 'other' }])
    })

    test('has bytes and time of each blob, and the beginning of its name anywhere', async () => {
      const store = await openNew()
      const before = Date.now()
      for (const name of ['a/b', 'a/bc/d', 'a-b', 'b']) await store.write(name, chunksOf(Buffer.alloc(name.length)))
      await store.createMultipartUpload('a/begun')
      const names = async (prefix: string) => (await listAll(store, prefix)).map(({ name }) => name)
      expect(await names('')).toEqual(['a-b', 'a/b', 'a/bc/d', 'b'])
      expect(await names('a')).toEqual(['a-b', 'a/b', 'a/bc/d'])
      expect(await names('a/')).toEqual(['a/b', 'a/bc/d'])
      expect(await names('a/bc')).toEqual(['a/bc/d'])
      expect(await names('a/bc/d')).toEqual(['a/bc/d'])
      expect(await names('c/d')).toEqual([])
      for (const { name, bytes, modifiedAt } of await listAll(store)) {
        expect(bytes).toBe(name.length)
        expect(Math.abs(modifiedAt - before)).toBeLessThan(10_000)
      }
    })

    test('is of one store alone, and of all its processes', async () => {
      const place = createPlace()
      const [one, same, other] = [await open(place), await open(place), await openNew()]
      await one.write('a', chunksOf(Buffer.alloc(9 * mebibyte)))
      await other.createMultipartUpload('b')
      expect(await listAll(same)).toMatchObject([{ name: 'a', bytes: 9 * mebibyte }])
      expect(await listAll(other)).toEqual([])
      expect(await collect(same.listMultipartUploads())).toEqual([])
    })

    test('removal beside writers of the same folder loses none of theirs', async () => {
      const store = await openNew()
      await Promise.all(
        Array.from({ length: 50 }, async (_, n) => {
          await store.write(`a/b/gone-${n}`, chunksOf(Buffer.from('x')))
          await Promise.all([
            store.remove([`a/b/gone-${n}`]),
            store.write(`a/b/${n % 2 === 0 ? 'kept' : 'kept-too'}`, chunksOf(Buffer.from('y'))),
          ])
          await store.remove([`a/b/gone-${n}`])
        }),
      )
      expect((await listAll(store)).map(({ name }) => name)).toEqual(['a/b/kept', 'a/b/kept-too'])
    })

    test('a store that works passes its check and shows nothing of it', async () => {
      const store = await openNew()
      await store.check()
      expect([await listAll(store), await collect(store.listMultipartUploads())]).toEqual([[], []])
    })
  })
}
