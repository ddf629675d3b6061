import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { LogBatch } from '../log.ts'
import { collect, nameOf } from './collect.ts'
import { areAllHeld, type Harness, partitions } from './harness.ts'

/** A group continues at its committed offsets, in order, no matter what happened to its members. */
export function describeCommittedOffsets({
  createGate,
  open,
  openNew,
  createUrl,
  startProcess,
  publishNames,
  publishEverywhere,
}: Harness): void {
  describe('committed offsets of a group', () => {
    test('a group continues where it stopped, independent of other groups', async () => {
      const log = await openNew()
      const first = await publishEverywhere(log, 'first')
      const reading = createGate()
      const other = collect(log, 'other', {}, () => reading.promise)
      await waitUntil(() => other.names.length === partitions, 'the other group')
      const before = collect(log, 'group')
      await waitUntil(() => before.committed.length === partitions, 'the first blocks')
      await before.consumer.stop()
      await before.running

      const second = await publishEverywhere(log, 'second')
      const after = collect(log, 'group')
      await waitUntil(() => after.committed.length >= partitions, 'the second blocks')
      reading.resolve(undefined)
      await waitUntil(() => other.committed.length >= 2 * partitions, 'all blocks')
      expect(after.names.sort()).toEqual(second)
      expect(other.names.sort()).toEqual([...first, ...second].sort())
    })

    test('the committed offsets of a group are reported before it joins, while it reads and afterwards', async () => {
      const log = await openNew()
      const standing = async () =>
        (await log.committedOffsets('group'))
          .map(({ partition, offset, endOffset }) => `${partition}: ${offset}/${endOffset}`)
          .sort()
      expect(await standing()).toEqual(['0: 0/0', '1: 0/0', '2: 0/0', '3: 0/0'])
      await publishNames(log, 1, ['a', 'b'])
      await publishNames(log, 3, ['c'])
      expect(await standing()).toEqual(['0: 0/0', '1: 0/2', '2: 0/0', '3: 0/1'])
      const reader = collect(log, 'group', { batchRowsMax: 1 })
      await waitUntil(() => reader.committed.length === 3, 'all blocks')
      expect(await standing()).toEqual(['0: 0/0', '1: 2/2', '2: 0/0', '3: 1/1'])
      await publishNames(log, 0, ['d'])
      await waitUntil(() => reader.committed.length === 4, 'the next block')
      await reader.consumer.stop()
      await publishNames(log, 0, ['e'])
      expect(await standing()).toEqual(['0: 1/2', '1: 2/2', '2: 0/0', '3: 1/1'])
    })

    test('the offsets for a time are those of the first blocks that were appended since', async () => {
      const log = await openNew()
      await publishNames(log, 1, ['a', 'b'])
      await publishNames(log, 2, ['c'])
      const between = Date.now() + 1
      await waitUntil(() => Date.now() >= between, 'the next millisecond')
      await publishNames(log, 1, ['d', 'e'])
      expect(await log.offsetsForTime(0)).toEqual([0n, 0n, 0n, 0n])
      expect(await log.offsetsForTime(between)).toEqual([0n, 2n, 1n, 0n])
      expect(await log.offsetsForTime(Date.now() + 3_600_000)).toEqual([0n, 4n, 1n, 0n])
    })

    test('a group replaces another one and continues where that one stopped', async () => {
      const log = await openNew()
      await publishEverywhere(log, 'first')
      const before = collect(log, 'before')
      await waitUntil(() => before.committed.length === partitions, 'the first blocks')
      await before.consumer.stop()
      await before.running

      await log.replaceGroup('unknown', 'after')
      await log.replaceGroup('before', 'after')
      const second = await publishEverywhere(log, 'second')
      const after = collect(log, 'after')
      await waitUntil(() => after.committed.length === partitions, 'the second blocks')
      await after.consumer.stop()
      await after.running
      expect(after.names.sort()).toEqual(second)

      // A group with committed offsets keeps them, no matter what the other group has read.
      await log.replaceGroup('before', 'after')
      expect((await log.committedOffsets('after')).every(({ offset, endOffset }) => offset === endOffset)).toBe(true)
    })

    test('groups of the same name in two logs are independent', async () => {
      const readers = await Promise.all([openNew(), openNew()].map(async (log) => collect(await log, 'group')))
      await waitUntil(() => readers.every((reader) => areAllHeld(reader)), 'all partitions of both')
    })

    test('uncommitted blocks are delivered again', async () => {
      const log = await openNew()
      await publishNames(log, 0, ['a', 'b', 'c'])
      const seen: string[] = []
      const before = log.consumer({
        group: 'group',
        batchBytesMax: 1024,
        batchRowsMax: 1,
        lingerMs: 0,
        async onClaim(claim) {
          for await (const batch of claim.batches()) {
            seen.push(...batch.blocks.map(nameOf))
            if (seen.length === 1) await claim.commit(batch)
          }
        },
      })
      const running = before.run()
      await waitUntil(() => seen.length === 3, 'all blocks')
      await before.stop()
      await running

      const after = collect(log, 'group')
      await waitUntil(() => after.committed.length >= 2, 'the uncommitted blocks')
      expect(after.names).toEqual(['b', 'c'])
    })

    test('a group continues at its committed offset after its member was killed', async () => {
      const url = await createUrl()
      const log = await open(url)
      for (const prefix of ['first', 'second', 'third', 'fourth']) await publishEverywhere(log, prefix)
      await log.close()
      const child = startProcess(url, 'consume', 'group')
      await waitUntil(() => child.reported('abandoned').length === partitions, 'two commits of each partition')
      await child.kill()
      expect(child.reported('committed')).toHaveLength(2 * partitions)

      const after = collect(await open(url), 'group')
      await waitUntil(() => after.committed.length >= 2 * partitions, 'the uncommitted blocks')
      expect(after.names.sort()).toEqual(
        ['third', 'fourth'].flatMap((prefix) => [0, 1, 2, 3].map((each) => `${prefix}${each}`)).sort(),
      )
    })

    test('batches are committed in order', async () => {
      const log = await openNew()
      await publishNames(log, 0, ['a', 'b'])
      const batches: LogBatch[] = []
      const commits = Promise.withResolvers<unknown>()
      const consumer = log.consumer({
        group: 'group',
        batchBytesMax: 1024,
        batchRowsMax: 1,
        lingerMs: 0,
        async onClaim(claim) {
          for await (const batch of claim.batches()) {
            batches.push(batch)
            if (batches.length === 2) commits.resolve(await claim.commit(batch).catch((error: unknown) => error))
          }
        },
      })
      const running = consumer.run()
      expect(await commits.promise).toBeInstanceOf(Error)
      await consumer.stop()
      await running
    })
  })
}
