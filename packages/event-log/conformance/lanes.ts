import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { block, collect } from './collect.ts'
import { areAllHeld, type Harness, partitions, timeoutMs } from './harness.ts'

/** The backfill log of a log: it has the same number of partitions, and is independent in everything else. */
export function describeLanes({ createUrl, open, openBackfill, publishEverywhere }: Harness): void {
  describe('the backfill log', () => {
    test('has the partitions of its log and keeps its blocks', async () => {
      const url = await createUrl()
      const log = await open(url)
      const backfill = await openBackfill(url, log)
      expect(await backfill.partitions()).toBe(await log.partitions())
      const names = await publishEverywhere(backfill, 'old')
      await backfill.close()
      await log.close()

      const reopened = await open(url)
      const reader = collect(await openBackfill(url, reopened), 'group')
      await waitUntil(() => reader.committed.length === partitions, 'the old blocks')
      expect(reader.committed.sort()).toEqual(names)
      expect(await reopened.endOffsets()).toEqual([0n, 0n, 0n, 0n])
    })

    test('is read by groups of its own, also when they have the same name', async () => {
      const url = await createUrl()
      const log = await open(url)
      const backfill = await openBackfill(url, log)
      const live = collect(log, 'group')
      const old = collect(backfill, 'group')
      // Each member has every partition of its own log and none of the other's.
      await waitUntil(() => areAllHeld(live) && areAllHeld(old), 'all partitions of both')
      const liveNames = await publishEverywhere(log, 'live')
      const oldNames = await publishEverywhere(backfill, 'old')
      await log.publish([block(0, 'last')], { timeoutMs })
      await waitUntil(() => live.committed.length + old.committed.length === 2 * partitions + 1, 'all blocks')
      expect(live.committed.sort()).toEqual(['last', ...liveNames])
      expect(old.committed.sort()).toEqual(oldNames)
      const standing = (await backfill.committedOffsets('group')).map(
        ({ offset, endOffset }) => `${offset}/${endOffset}`,
      )
      expect(standing).toEqual(['1/1', '1/1', '1/1', '1/1'])
      expect(await log.endOffsets()).toEqual([2n, 1n, 1n, 1n])
    })
  })
}
