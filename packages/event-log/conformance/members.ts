import { once } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import type { Claim, LogBatch } from '../log.ts'
import { collect, eagerly, waitUntilTrue } from './collect.ts'
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
      await waitUntilTrue('all partitions and some blocks', () => areAllHeld(first) && first.committed.length > 40)

      const second = collect(log, 'group')
      await waitUntilTrue('shares', () => second.held().length > 0 && areAllHeld(first, second))
      expect(first.held().length).toBe(2)
      const shared = second.committed.length
      await waitUntilTrue('blocks for the second', () => second.committed.length > shared + 20)

      await second.consumer.stop()
      await second.running
      await waitUntilTrue('all partitions back', () => first.held().length === partitions)
      enough.abort()
      await publisher
      await waitUntilTrue('every block', () => new Set([...first.worked, ...second.worked]).size === sent.length)
      await first.consumer.stop()
      await first.running

      const after = collect(log, 'group')
      const [last = ''] = await publishEverywhere(log, 'last')
      await waitUntilTrue('the last blocks', () => after.names.includes(last))
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
      await waitUntilTrue('a batch of each', () => held.size === partitions)
      const second = collect(log, 'group')
      await waitUntilTrue('a lost claim', () => first.claims.some(({ lost }) => lost.aborted))
      await waitUntilTrue('the second to work', () => second.committed.length > 0)
      const lost = first.claims.filter((claim) => claim.lost.aborted)
      release.resolve(undefined)
      await waitUntilTrue('refusals', () => refusals.length >= lost.length)
      for (const refusal of refusals) expect(refusal).toBeInstanceOf(Error)
      await waitUntilTrue('every block', () => new Set([...first.worked, ...second.worked]).size === partitions)

      await second.consumer.stop()
      await waitUntilTrue('all partitions back', () => first.held().length === partitions)
      const [next = ''] = await publishEverywhere(log, 'next')
      await waitUntilTrue('the member to go on', () => first.committed.includes(next))
    })

    test('a member that stops finishes and commits its batch and gets no further one', async () => {
      const log = await openNew()
      await publishNames(log, 2, ['a', 'b'])
      const release = createGate()
      const first = collect(log, 'group', { batchRowsMax: 1 }, () => release.promise)
      await waitUntilTrue('the batch', () => first.names.length === 1)
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
      await waitUntilTrue('the others', () => second.committed.length >= 2)
      expect(second.names).toEqual(['b', 'c'])
    })

    test('a member has joined once it has its share, which may be no partition, and still has while others come', async () => {
      const log = await openNew()
      const unstarted = log.consumer({ group: 'group', ...eagerly, onClaim: () => Promise.resolve() })
      const members = [collect(log, 'group')]
      expect(members[0]?.consumer.hasJoined()).toBe(false)
      await waitUntilTrue('the first to join', () => members[0]?.consumer.hasJoined() === true)
      // One more than there are partitions.
      while (members.length <= partitions) members.push(collect(log, 'group'))
      await waitUntilTrue('the others to join', () => {
        expect(members[0]?.consumer.hasJoined()).toBe(true)
        return members.every(({ consumer }) => consumer.hasJoined()) && areAllHeld(...members)
      })
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
      await waitUntilTrue('all partitions', () => areAllHeld(second) && second.committed.includes(name))
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
      await waitUntilTrue('a batch of each', () => first.names.length === partitions)
      release.resolve(undefined)
      await expect(first.running).rejects.toBe(failure)
      expect(first.committed.sort()).toEqual(['block0', 'block2', 'block3'])

      const second = collect(log, 'group')
      await waitUntilTrue('the block that failed', () => second.committed.length > 0)
      expect(second.names).toEqual(['block1'])
    })

    test('a failed handler does not wait for one that can not go on', async () => {
      const log = await openNew()
      await publishEverywhere(log, 'block')
      const failure = new Error('cannot write')
      const first = collect(log, 'group', {}, async ({ partition }, { lost }) => {
        await waitUntilTrue('a batch of each', () => first.names.length >= partitions)
        if (partition === 1) throw failure
        if (partition === 2 && !lost.aborted) await once(lost, 'abort')
      })
      await expect(first.running).rejects.toBe(failure)
      expect(first.committed.sort()).toEqual(['block0', 'block3'])
    })
  })
}
