import { once } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { Claim, LogBatch } from '../log.ts'
import { collect, eagerly } from './collect.ts'
import { areAllHeld, type Harness, partitions } from './harness.ts'

/** How members share partitions, lose them, stop and fail. */
export function describeMembers({ createGate, openNew, publishNames, publishEverywhere }: Harness): void {
  describe('members of a group', () => {
    test('a second member gets a share of the partitions, which returns when it stops, and no block is lost', async () => {
      const log = await openNew()
      const sent: string[] = []
      const enough = new AbortController()
      const publisher = (async () => {
        for (let round = 0; !enough.signal.aborted; round++) sent.push(...(await publishEverywhere(log, `${round}-`)))
      })()
      const first = collect(log, 'group')
      await waitUntil(() => areAllHeld(first) && first.committed.length > 40, 'all partitions and some blocks')

      const second = collect(log, 'group')
      await waitUntil(() => second.held().length > 0 && areAllHeld(first, second), 'shares')
      expect(first.held().length).toBe(2)
      const shared = second.committed.length
      await waitUntil(() => second.committed.length > shared + 20, 'blocks for the second')

      await second.consumer.stop()
      await second.running
      await waitUntil(() => first.held().length === partitions, 'all partitions back')
      enough.abort()
      await publisher
      await waitUntil(() => new Set([...first.worked, ...second.worked]).size === sent.length, 'every block')
      await first.consumer.stop()
      await first.running

      const after = collect(log, 'group')
      const [last = ''] = await publishEverywhere(log, 'last')
      await waitUntil(() => after.names.includes(last), 'the last blocks')
      expect(after.names.filter((each) => !each.startsWith('last'))).toEqual([])
    })

    test('a lost claim ends, aborts its signal and refuses commits, and its handler does not end the member', async () => {
      const log = await openNew()
      await publishEverywhere(log, 'block')
      const held = new Map<Claim, LogBatch>()
      const release = createGate()
      const refusals: unknown[] = []
      const first = collect(log, 'group', {}, async (batch, claim) => {
        held.set(claim, batch)
        await release.promise
        if (claim.lost.aborted) refusals.push(await claim.commit(batch).catch((error: unknown) => error))
      })
      await waitUntil(() => held.size === partitions, 'a batch of each')
      const second = collect(log, 'group')
      await waitUntil(() => first.claims.some(({ lost }) => lost.aborted), 'a lost claim')
      await waitUntil(() => second.committed.length > 0, 'the second to work')
      const lost = first.claims.filter((claim) => claim.lost.aborted)
      release.resolve(undefined)
      await waitUntil(() => refusals.length >= lost.length, 'refusals')
      for (const refusal of refusals) expect(refusal).toBeInstanceOf(Error)
      await waitUntil(() => new Set([...first.worked, ...second.worked]).size === partitions, 'every block')

      await second.consumer.stop()
      await waitUntil(() => first.held().length === partitions, 'all partitions back')
      const [next = ''] = await publishEverywhere(log, 'next')
      await waitUntil(() => first.committed.includes(next), 'the member to go on')
    })

    test('a member that stops finishes and commits its batch and gets no further one', async () => {
      const log = await openNew()
      await publishNames(log, 2, ['a', 'b'])
      const release = createGate()
      const first = collect(log, 'group', { batchRowsMax: 1 }, () => release.promise)
      await waitUntil(() => first.names.length === 1, 'the batch')
      let stopped = false
      const stopping = first.consumer.stop().then(() => {
        stopped = true
      })
      await publishNames(log, 2, ['c'])
      expect(stopped).toBe(false)
      release.resolve(undefined)
      await stopping
      await first.running
      expect(first.committed).toEqual(['a'])
      await first.consumer.stop()

      const second = collect(log, 'group')
      await waitUntil(() => second.committed.length >= 2, 'the others')
      expect(second.names).toEqual(['b', 'c'])
    })

    test('a member has joined once it has its share, which may be no partition, and still has while others come', async () => {
      const log = await openNew()
      const unstarted = log.consumer({ group: 'group', ...eagerly, onClaim: () => Promise.resolve() })
      const members = [collect(log, 'group')]
      expect(members[0]?.consumer.hasJoined()).toBe(false)
      await waitUntil(() => members[0]?.consumer.hasJoined() === true, 'the first to join')
      // One more than there are partitions.
      while (members.length <= partitions) members.push(collect(log, 'group'))
      await waitUntil(() => {
        expect(members[0]?.consumer.hasJoined()).toBe(true)
        return members.every(({ consumer }) => consumer.hasJoined()) && areAllHeld(...members)
      }, 'the others to join')
      expect(members.filter(({ held }) => held().length === 0)).toHaveLength(1)
      expect(unstarted.hasJoined()).toBe(false)
    })

    test('a member that stops before it has joined leaves nothing behind', async () => {
      const log = await openNew()
      const hasty = collect(log, 'group')
      await hasty.consumer.stop()
      await hasty.running
      const [name = ''] = await publishEverywhere(log, 'block')
      const second = collect(log, 'group')
      await waitUntil(() => areAllHeld(second) && second.committed.includes(name), 'all partitions')
    })

    test('a failed handler ends the member after the other handlers have finished', async () => {
      const log = await openNew()
      await publishEverywhere(log, 'block')
      const failure = new Error('cannot write')
      const release = createGate()
      const first = collect(log, 'group', {}, async ({ partition }) => {
        await release.promise
        if (partition === 1) throw failure
      })
      await waitUntil(() => first.names.length === partitions, 'a batch of each')
      release.resolve(undefined)
      await expect(first.running).rejects.toBe(failure)
      expect(first.committed.sort()).toEqual(['block0', 'block2', 'block3'])

      const second = collect(log, 'group')
      await waitUntil(() => second.committed.length > 0, 'the block that failed')
      expect(second.names).toEqual(['block1'])
    })

    test('a failed handler does not wait for one that can not go on', async () => {
      const log = await openNew()
      await publishEverywhere(log, 'block')
      const failure = new Error('cannot write')
      const first = collect(log, 'group', {}, async ({ partition }, { lost }) => {
        await waitUntil(() => first.names.length >= partitions, 'a batch of each')
        if (partition === 1) throw failure
        if (partition === 2 && !lost.aborted) await once(lost, 'abort')
      })
      await expect(first.running).rejects.toBe(failure)
      expect(first.committed.sort()).toEqual(['block0', 'block3'])
    })
  })
}
