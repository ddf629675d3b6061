import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { waitUntil } from '@sluice/runtime/wait-until'
import {
  blockOfRows,
  createProxiedStores,
  event,
  type ProxiedStores,
  type RunningWriter,
  runWriter,
} from '../../tests/support/writer.ts'
import { insertLockCount, insertQueryId } from './insert-lock.ts'

test('copies of an event share a lock while the partitions grow from one multiple of four to another', () => {
  const multiple = fc.integer({ min: 1, max: 64 }).map((n) => n * insertLockCount)
  fc.assert(
    fc.property(fc.nat(), multiple, multiple, (hash, before, after) =>
      expect(insertQueryId('log', hash % before)).toBe(insertQueryId('log', hash % after)),
    ),
  )
})

describe('copies of an event in two partitions, as gateways with 4 and with 8 partitions publish them,', () => {
  let stores: ProxiedStores
  const writers: RunningWriter[] = []
  const ids = Array.from({ length: 100 }, (_, n) => `e${String(n).padStart(3, '0')}`)

  beforeEach(async () => {
    stores = await createProxiedStores(2 * insertLockCount)
  })

  afterEach(async () => {
    await Promise.all(writers.splice(0).map((writer) => writer.stop()))
    await stores.drop()
  })

  const start = (): void => {
    writers.push(runWriter(stores, { inserter: stores.proxied, insertsMax: 4 }))
  }
  const publishCopies = async (): Promise<void> => {
    const rows = ids.map((id) => event(id))
    await stores.publish(blockOfRows(1, rows), blockOfRows(1 + insertLockCount, rows))
  }

  test('are inserted one after the other by one writer, and stored once', async () => {
    let running = 0
    let most = 0
    stores.proxy.hooks.onArrived = () => {
      most = Math.max(most, ++running)
      return Promise.resolve()
    }
    stores.proxy.hooks.onAnswered = () => {
      running--
      return Promise.resolve()
    }
    stores.proxy.slowSeconds = 1
    await publishCopies()
    start()
    await waitUntil(() => stores.isDrained(), 'the log is drained')
    expect(await stores.stored()).toStrictEqual(ids)
    expect(most).toBe(1)
  })

  test('are stored once when two writers insert them at the same moment', async () => {
    // Of three members, two have the two partitions.
    for (let n = 0; n < 3; n++) start()
    const shares = () => writers.map(({ consumer }) => consumer.lag().map(({ partition }) => partition))
    await waitUntil(
      () => shares().flat().length === 2 * insertLockCount && shares().every((share) => share.length > 0),
      'each writer has its share',
    )
    expect(shares().some((share) => share.includes(1) && share.includes(1 + insertLockCount))).toBe(false)
    // The inserts begin together, and each ends a second after its look-back.
    let arrived = 0
    const both = Promise.withResolvers<undefined>()
    stores.proxy.hooks.onArrived = () => {
      if (++arrived === 2) both.resolve(undefined)
      return both.promise
    }
    stores.proxy.slowSeconds = 1
    await publishCopies()
    await waitUntil(() => stores.isDrained(), 'the log is drained')
    expect(await stores.stored()).toStrictEqual(ids)
    // One of the two was excluded, or ended by the other, and tried again.
    expect(arrived).toBeGreaterThan(2)
  })
})
