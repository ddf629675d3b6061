import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type AppendedBlock, createClaimFeed } from './claim-feed.ts'

function entry(offset: number, payload = Buffer.from('{}\n')): AppendedBlock {
  return {
    offset: BigInt(offset),
    appendedAt: Date.now(),
    block: { partition: 0, headers: { v: 1, rows: 1, bytes: payload.length }, payload },
  }
}

test('a batch is not made ready before it is due, and holds what has arrived until it is ready', async () => {
  const feed = createClaimFeed({
    partition: 0,
    startOffset: 0n,
    limits: { batchBytesMax: 1_000, batchRowsMax: 3, lingerMs: 600_000 },
    store: () => Promise.resolve(),
    onSpaceAvailable: () => undefined,
  })
  const asked = Promise.withResolvers<undefined>()
  const gate = Promise.withResolvers<undefined>()
  let calls = 0
  const ready = () => {
    calls++
    asked.resolve(undefined)
    return gate.promise
  }
  const batches = feed.claim.batches({ ready })[Symbol.asyncIterator]()
  const first = batches.next()
  feed.push([entry(0)])
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
  // Its first block lingers.
  expect(calls).toBe(0)
  feed.push([entry(1), entry(2)])
  await asked.promise
  feed.push([entry(3), entry(4), entry(5)])
  gate.resolve(undefined)
  expect((await first).value).toMatchObject({ firstOffset: 0n, nextOffset: 3n, rows: 3 })
  expect((await batches.next()).value).toMatchObject({ firstOffset: 3n, nextOffset: 6n })
  expect(calls).toBe(2)
})

test('a claim that ends while a batch waits hands out no batch', async () => {
  const feed = createClaimFeed({
    partition: 0,
    startOffset: 0n,
    limits: { batchBytesMax: 1_000, batchRowsMax: 1, lingerMs: 0 },
    store: () => Promise.resolve(),
    onSpaceAvailable: () => undefined,
  })
  const gate = Promise.withResolvers<undefined>()
  const batches = feed.claim.batches({ ready: () => gate.promise })[Symbol.asyncIterator]()
  const first = batches.next()
  feed.push([entry(0)])
  feed.lose('another member')
  gate.resolve(undefined)
  expect(await first).toMatchObject({ done: true })
})

test('batches that are read and not committed are not kept in memory', async () => {
  const blockBytes = 1024 * 1024
  const feed = createClaimFeed({
    partition: 0,
    startOffset: 0n,
    limits: { batchBytesMax: blockBytes, batchRowsMax: 1, lingerMs: 0 },
    store: () => Promise.resolve(),
    onSpaceAvailable: () => undefined,
  })
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  collectGarbage()
  const before = process.memoryUsage().arrayBuffers
  const batches = feed.claim.batches()[Symbol.asyncIterator]()
  for (let offset = 0; offset < 64; offset++) {
    feed.push([entry(offset, Buffer.alloc(blockBytes))])
    expect(await batches.next()).toMatchObject({ value: { firstOffset: BigInt(offset) } })
  }
  // V8 frees the memory of buffers concurrently.
  const isFree = () => {
    collectGarbage()
    return process.memoryUsage().arrayBuffers - before < 16 * blockBytes
  }
  await waitUntil(isFree, 'the memory is free')
})
