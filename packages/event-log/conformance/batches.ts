import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { readBudget } from '../consumer/read-budget.ts'
import { block, bufferBytes, collect, eagerly, nameOf } from './collect.ts'
import { areAllHeld, type Harness, timeoutMs } from './harness.ts'

/** Limits of batches, back-pressure and lag. */
export function describeBatches({ createGate, openNew, publishNames }: Harness): void {
  describe('batches', () => {
    test('have at most the configured number of rows', async () => {
      const log = await openNew()
      await log.publish(
        Array.from({ length: 10 }, (_, index) => block(0, String(index), { rows: 30 })),
        { timeoutMs },
      )
      const reader = collect(log, 'group', { batchRowsMax: 100, lingerMs: 1_000 })
      await waitUntil(() => reader.committed.length === 10, 'all blocks')
      expect(reader.batches.map(({ rows }) => rows)).toEqual([90, 90, 90, 30])
    })

    test('have at most the configured bytes, unless one block is larger', async () => {
      const log = await openNew()
      const sizes = [400, 400, 400, 3000, 10]
      await log.publish(
        sizes.map((bytes, index) => block(0, String(index), {}, bytes)),
        { timeoutMs },
      )
      const reader = collect(log, 'group', { batchBytesMax: 1000, lingerMs: 1_000 })
      await waitUntil(() => reader.committed.length === sizes.length, 'all blocks')
      expect(reader.batches.map(({ bytes }) => bytes)).toEqual([800, 400, 3000, 10])
      expect(reader.names).toEqual(['0', '1', '2', '3', '4'])
    })

    test('are delivered at once when full, otherwise after the linger', async () => {
      const log = await openNew()
      const full = collect(log, 'full', { batchRowsMax: 2, lingerMs: 60_000 })
      const lingering = collect(log, 'lingering', { batchRowsMax: 100, lingerMs: 300 })
      await waitUntil(() => areAllHeld(full) && areAllHeld(lingering), 'claims')
      const started = performance.now()
      await publishNames(log, 0, ['a'])
      await publishNames(log, 0, ['b'])
      // The wait is shorter than the linger of a minute.
      await waitUntil(() => full.batches.length === 1, 'the full batch')
      await waitUntil(() => lingering.batches.length > 0, 'the first batch that lingered')
      expect(performance.now() - started).toBeGreaterThanOrEqual(300)
      await waitUntil(() => lingering.names.length === 2, 'all that lingered')
      expect(lingering.names).toEqual(['a', 'b'])
    })

    test('hold what arrives until their reader is ready', async () => {
      const log = await openNew()
      const gate = createGate()
      let asked = 0
      const read: string[][] = []
      const reader = log.consumer({
        group: 'group',
        ...eagerly,
        async onClaim(claim) {
          const ready = async () => {
            asked++
            await gate.promise
          }
          for await (const batch of claim.batches({ ready })) {
            read.push(batch.blocks.map(nameOf))
            await claim.commit(batch)
          }
        },
      })
      const running = reader.run()
      await publishNames(log, 0, ['a'])
      await waitUntil(() => asked === 1, 'the question')
      await publishNames(log, 0, ['b'])
      await waitUntil(() => reader.lag().some(({ blocks }) => blocks === 2), 'the second block')
      expect(read).toEqual([])
      gate.resolve(undefined)
      await waitUntil(() => read.length > 0, 'the batch')
      expect(read[0]?.[0]).toBe('a')
      await publishNames(log, 0, ['c'])
      await waitUntil(() => read.flat().length === 3, 'the next batch')
      expect(read.flat()).toEqual(['a', 'b', 'c'])
      expect(asked).toBe(read.length)
      await reader.stop()
      await running
    })

    test('do not fill the memory or delay other partitions when a handler is slow', async () => {
      const log = await openNew()
      const mebibyte = 1024 * 1024
      const payload = Buffer.alloc(mebibyte, 'x\n')
      const big = { partition: 0, headers: { v: 1, rows: 1, bytes: mebibyte } as const, payload }
      const release = createGate()
      const reader = collect(log, 'group', { batchBytesMax: mebibyte }, async ({ partition }) => {
        if (partition === 0) await release.promise
      })
      await waitUntil(() => areAllHeld(reader), 'claims')
      const before = bufferBytes()
      for (let round = 0; round < 24; round++) await log.publish([big, big, big, big], { timeoutMs })
      // The time would suffice to read the whole log.
      for (let round = 0; round < 30; round++) {
        await publishNames(log, 1, [String(round)])
        await waitUntil(() => reader.committed.includes(String(round)), 'the other partition')
      }
      expect(bufferBytes() - before).toBeLessThan(48 * mebibyte)
      expect(reader.batches.filter(({ partition }) => partition === 0)).toHaveLength(1)
      release.resolve(undefined)
      await waitUntil(() => reader.committed.length === 96 + 30, 'the rest')
    })

    test('of a stalled claim leave room in a small budget for those of the others', async () => {
      const log = await openNew()
      const count = 20
      for (const partition of [0, 1, 2, 3]) {
        const blocks = Array.from({ length: count }, (_, n) => block(partition, `${partition}-${n}`, {}, 16 * 1024))
        await log.publish(blocks, { timeoutMs })
      }
      const release = createGate()
      const options = { batchBytesMax: 64 * 1024, budget: readBudget(128 * 1024) }
      const reader = collect(log, 'group', options, ({ partition }) =>
        partition === 3 ? Promise.resolve() : release.promise,
      )
      await waitUntil(() => reader.committed.length === count, 'the blocks of the partition that is not stalled')
      release.resolve(undefined)
      await waitUntil(() => reader.committed.length === 4 * count, 'all blocks')
      expect(new Set(reader.committed).size).toBe(4 * count)
    })

    test('count as lag until they are committed', async () => {
      const log = await openNew()
      const release = createGate()
      const before = Date.now()
      await publishNames(log, 0, ['a', 'b', 'c'])
      const reader = collect(log, 'group', { batchRowsMax: 1 }, () => release.promise)
      const lagOf = (partition: number) => reader.consumer.lag().find((each) => each.partition === partition)
      await waitUntil(() => areAllHeld(reader) && reader.names.length === 1, 'claims')
      await waitUntil(() => lagOf(0)?.blocks === 3, 'the lag')
      expect(lagOf(0)?.oldestAppendedAt).toBeGreaterThanOrEqual(before - 1000)
      expect(lagOf(0)?.committed).toBe(0n)
      expect(lagOf(1)).toEqual({ partition: 1, committed: 0n, blocks: 0, oldestAppendedAt: undefined })
      release.resolve(undefined)
      await waitUntil(() => lagOf(0)?.blocks === 0, 'no lag')
      expect(lagOf(0)?.committed).toBe(3n)
      await reader.consumer.stop()
      expect(reader.consumer.lag()).toEqual([])
    })
  })
}
