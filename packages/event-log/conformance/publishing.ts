import { describe, expect, test } from '@jest/globals'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { DeadLetter } from '../block.ts'
import { block, collect, nameOf } from './collect.ts'
import { type Harness, partitions, timeoutMs } from './harness.ts'

/** Durability, order and bytes of what is published, and the ends of the partitions. */
export function describePublishing({ open, openNew, createUrl, startProcess, publishNames }: Harness): void {
  describe('publishing', () => {
    test('the log has the same id and partitions at each opening', async () => {
      const url = await createUrl()
      const first = await open(url)
      const id = await first.id()
      expect(id).toMatch(/^[A-Za-z0-9._-]+$/)
      expect(await first.partitions()).toBe(partitions)
      await first.check()
      await first.close()
      expect(await (await open(url)).id()).toBe(id)
      expect(await (await openNew()).id()).not.toBe(id)
    })

    test('acknowledged blocks survive the end of the process that published them', async () => {
      const url = await createUrl()
      const child = startProcess(url, 'publish')
      await waitUntil(() => child.reported('acknowledged').length >= 200, 'acknowledgements')
      await child.kill()
      const acknowledged = child.reported('acknowledged')

      const reader = collect(await open(url), 'reader')
      await waitUntil(() => reader.names.length >= acknowledged.length, 'every acknowledged block')
      expect(reader.names).toEqual(expect.arrayContaining(acknowledged))
    })

    test('blocks of a partition keep the order of sequential calls', async () => {
      const log = await openNew()
      const names = Array.from({ length: 60 }, (_, index) => String(index))
      for (let index = 0; index < names.length; index += 3) {
        await log.publish(
          names.slice(index, index + 3).flatMap((each) => [block(1, each), block(2, each)]),
          { timeoutMs },
        )
      }
      const reader = collect(log, 'reader')
      await waitUntil(() => reader.names.length === 2 * names.length, 'all blocks')
      for (const partition of [1, 2]) {
        const read = reader.batches.filter((batch) => batch.partition === partition).flatMap(({ blocks }) => blocks)
        expect(read.map(nameOf)).toEqual(names)
      }
    })

    test('concurrent publishes all arrive', async () => {
      let sentAgain = 0
      const countSentAgain = (_: unknown, message?: string) => {
        if (message?.endsWith('sent again') === true) sentAgain++
      }
      const log = await open(await createUrl(), { ...silentLogger, debug: countSentAgain })
      const names = Array.from({ length: 300 }, (_, index) => String(index))
      await Promise.all(names.map((each, index) => publishNames(log, index % partitions, [each])))
      const reader = collect(log, 'reader')
      await waitUntil(() => new Set(reader.names).size >= names.length, 'all blocks')
      expect([...new Set(reader.names)].sort()).toEqual(names.sort())
      // A broker that acknowledges a request too late stores its block twice: the producer sends the request again.
      // Here each request has one block.
      expect(reader.names.length - names.length).toBeLessThanOrEqual(sentAgain)
    })

    test('the ends lie beyond every block that was acknowledged before', async () => {
      const log = await openNew()
      expect(await log.endOffsets()).toEqual([0n, 0n, 0n, 0n])
      let acknowledged = 0
      const publishers = Array.from({ length: 4 }, async () => {
        for (let round = 0; round < 20; round++) {
          await publishNames(log, 2, ['block'])
          const least = BigInt(++acknowledged)
          expect((await log.endOffsets())[2]).toBeGreaterThanOrEqual(least)
        }
      })
      await Promise.all(publishers)
      expect(await log.endOffsets()).toEqual([0n, 0n, 80n, 0n])
    })

    test('headers and payload are read unchanged', async () => {
      const log = await openNew()
      const payload = Buffer.from('{"a":"ü"}\n{"b":1}\n')
      // Part of a larger buffer, as the gateway's payloads may be.
      const slab = Buffer.concat([Buffer.alloc(7, 'x'), payload, Buffer.alloc(9, 'y')])
      const headers = { v: 1, rows: 2, bytes: payload.length } as const
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
      const special = { ...headers, undated: true, traceparent } as const
      const before = Date.now()
      const given = slab.subarray(7, 7 + payload.length)
      await log.publish([{ partition: 3, headers, payload: given }], { timeoutMs })
      await log.publish([{ partition: 3, headers: special, payload: given }], { timeoutMs })
      expect(given.equals(payload)).toBe(true)

      const reader = collect(log, 'reader')
      await waitUntil(() => reader.names.length === 2, 'both blocks')
      const blocks = reader.batches.flatMap((batch) => batch.blocks)
      expect(blocks.map((each) => ({ ...each, payload: each.payload.toString() }))).toEqual([
        { partition: 3, headers, payload: payload.toString() },
        { partition: 3, headers: special, payload: payload.toString() },
      ])
      expect(reader.batches.flatMap(({ offsets }) => offsets)).toEqual([0n, 1n])
      for (const batch of reader.batches) {
        expect(batch.rows).toBe(2 * batch.blocks.length)
        expect(batch.bytes).toBe(payload.length * batch.blocks.length)
        expect(batch.oldestAppendedAt).toBeGreaterThanOrEqual(before - 1000)
        expect(batch.oldestAppendedAt).toBeLessThanOrEqual(Date.now() + 1000)
      }
    })

    test('a dead letter is read unchanged', async () => {
      const log = await openNew()
      const payload = Buffer.from([0xff, 0x7b, 0x00, 0x0a])
      const letter: DeadLetter = {
        reason: 'refused',
        code: 27,
        text: 'can’t “parse”\n',
        at: 1,
        partition: 2,
        offset: '90071992547409931',
      }
      const headers = { v: 1, rows: 1, bytes: payload.length, undated: true, letter } as const
      await log.publish([{ partition: 0, headers, payload }], { timeoutMs })
      const reader = collect(log, 'reader')
      await waitUntil(() => reader.names.length === 1, 'the letter')
      expect(reader.batches[0]?.blocks).toEqual([{ partition: 0, headers, payload }])
    })

    test('an empty publish resolves, and a partition that does not exist is refused', async () => {
      const log = await openNew()
      await log.publish([], { timeoutMs })
      await expect(publishNames(log, partitions, ['nowhere'])).rejects.toThrow(RangeError)
    })

    test('a closed log answers 503', async () => {
      const log = await openNew()
      await log.close()
      await expect(publishNames(log, 0, ['late'])).rejects.toMatchObject({ code: 'unavailable', retryable: true })
      await expect(log.check()).rejects.toMatchObject({ code: 'unavailable' })
    })
  })
}
