import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Block } from '@sluice/event-log/block'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import { tablePartitionOf } from '@sluice/event-store/insert/table-partition'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import {
  blockOfRows,
  createProxiedStores,
  event,
  partitions,
  type ProxiedStores,
  type RunningWriter,
  runOldWriter,
  runWriter,
  timeoutMs,
} from '../../tests/support/writer.ts'
import { liveTraffic } from './live-traffic.ts'

let stores: ProxiedStores
const writers: RunningWriter[] = []

beforeEach(async () => {
  stores = await createProxiedStores()
})

afterEach(async () => {
  await Promise.all(writers.splice(0).map((writer) => writer.stop()))
  await stores.drop()
})

function start<Changes>(
  run: (place: ProxiedStores, changes?: Changes) => RunningWriter,
  changes?: Changes,
): RunningWriter {
  const writer = run(stores, changes)
  writers.push(writer)
  return writer
}

const publishOld = (...blocks: Block[]): Promise<void> => stores.backfill.publish(blocks, { timeoutMs })

/** An inserter that records the rows of each statement. */
function recordingInserter() {
  const statements: { event_id: string; timestamp: number }[][] = []
  const insert: EventInserter['insert'] = (batch, options) => {
    const lines = batch.payloads.flatMap((payload) => payload.toString().split('\n').slice(0, -1))
    statements.push(lines.map((line) => JSON.parse(line) as { event_id: string; timestamp: number }))
    return stores.inserter.insert(batch, options)
  }
  return { statements, inserter: { ...stores.inserter, insert } }
}

/** A live log that does not grow. */
const quiet = { endOffsets: () => Promise.resolve([0n]) }

/** Rows of twenty months. */
const scattered = Array.from({ length: 20 }, (_, month) => event(`m${month}`, { timestamp: Date.UTC(2020, month) }))

describe('copies of an event that go through both logs', () => {
  test.each(['dated', 'undated'])('at the same moment are stored once (%s)', async (kind) => {
    const rows = Array.from({ length: 100 }, (_, n) => event(`e${String(n).padStart(3, '0')}`))
    const { headers, ...block } = blockOfRows(
      1,
      rows.map((row) => (kind === 'undated' ? { ...row, undated: 1 } : row)),
    )
    const copy = { ...block, headers: { ...headers, ...(kind === 'undated' && { undated: true as const }) } }
    await stores.publish(copy)
    await publishOld(copy)
    // The inserts of both lanes begin together, and each ends a second after its look-back.
    stores.proxy.slowSeconds = 1
    let arrived = 0
    const both = Promise.withResolvers<undefined>()
    stores.proxy.hooks.onArrived = () => {
      if (++arrived === 2) both.resolve(undefined)
      return both.promise
    }
    start(runWriter, { inserter: stores.proxied })
    start(runOldWriter, { inserter: stores.proxied })
    await waitUntil(() => stores.isDrained(), 'both logs are drained')
    expect(await stores.stored()).toStrictEqual(rows.map(({ event_id: id }) => id))
    // One of the two was excluded, and tried again.
    expect(arrived).toBeGreaterThan(2)
  })

  test('in either order are stored once', async () => {
    const [first, second] = [blockOfRows(0, [event('a'), event('b')]), blockOfRows(0, [event('b'), event('c')])]
    start(runWriter)
    start(runOldWriter)
    await stores.publish(first)
    await waitUntil(async () => (await stores.stored()).length === 2, 'the live ones')
    await publishOld(first, second)
    await waitUntil(async () => (await stores.stored()).length === 3, 'the old ones')
    await stores.publish(second)
    await waitUntil(() => stores.isDrained(), 'both logs are drained')
    expect(await stores.stored()).toStrictEqual(['a', 'b', 'c'])
  })
})

test('old rows of many months are stored by one statement of each partition while no live rows arrive', async () => {
  const { statements, inserter } = recordingInserter()
  await publishOld(blockOfRows(0, scattered))
  // After its first request of the log's end, the writer can't know yet that the log does not grow.
  const writer = start(runOldWriter, { inserter, isLive: liveTraffic(quiet, () => []) })
  await waitUntil(() => stores.isDrained(), 'it is drained')
  expect(await stores.stored()).toHaveLength(scattered.length)
  expect(writer.consumer.warnings()).toStrictEqual([])
  expect(statements.flat()).toHaveLength(scattered.length)

  const next = Array.from({ length: 20 }, (_, month) => event(`n${month}`, { timestamp: Date.UTC(2020, month) }))
  await waitUntil(async () => {
    statements.length = 0
    await publishOld(blockOfRows(0, next))
    await waitUntil(() => stores.isDrained(), 'it is drained')
    return statements.length === 1
  }, 'one statement')
})

test('old rows of many months are stored by statements of eight months while live rows arrive', async () => {
  const { statements, inserter } = recordingInserter()
  await publishOld(blockOfRows(0, scattered))
  start(runOldWriter, {
    inserter,
    isLive: liveTraffic(quiet, () => [{ partition: 0, committed: 0n, blocks: 1, oldestAppendedAt: undefined }]),
  })
  await waitUntil(() => stores.isDrained(), 'it is drained')
  const months = statements.map((rows) => new Set(rows.map(({ timestamp }) => tablePartitionOf(timestamp))).size)
  expect(months).toStrictEqual([8, 8, 4])
  expect(await stores.stored()).toStrictEqual(scattered.map(({ event_id: id }) => id).sort())
})

test('a row that can’t be stored becomes a dead letter that names the lane', async () => {
  await publishOld(blockOfRows(1, [event('good'), event('bad', { environment: 'moon' })]))
  start(runOldWriter)
  await waitUntil(() => stores.isDrained(), 'it is drained')
  expect(await stores.dead()).toMatchObject([{ reason: 'refused', lane: 'backfill' }])
  expect(await stores.stored()).toStrictEqual(['good'])
})

test('a partition whose old rows can’t be stored does not hold up the others', async () => {
  const everywhere = Array.from({ length: partitions }, (_, partition) => partition)
  await publishOld(...everywhere.map((partition) => blockOfRows(partition, [event(`first-${partition}`)])))
  const refusing = (options: { queryId: string }) => options.queryId.endsWith('-0')
  const insert: EventInserter['insert'] = (batch, options) =>
    refusing(options) ? Promise.reject(new Error('no')) : stores.inserter.insert(batch, options)
  const writer = start(runOldWriter, { inserter: { ...stores.inserter, insert } })
  await waitUntil(async () => (await stores.stored()).length === partitions - 1, 'the others')
  await publishOld(blockOfRows(1, [event('next')]))
  await waitUntil(async () => (await stores.stored()).includes('next'), 'their next rows')
  expect(writer.consumer.warnings()).toStrictEqual([expect.stringContaining('backfill log: partition 0 waits')])
})

test('a partition whose dead letters are not taken does not hold up the others', async () => {
  await publishOld(blockOfRows(0, [event('bad', { environment: 'moon' })]))
  const deadLetters = {
    partitions: () => stores.deadLetters.partitions(),
    publish: () => Promise.reject(new Error('the log is unavailable')),
  }
  const writer = start(runOldWriter, { deadLetters })
  await waitUntil(() => writer.consumer.warnings().length === 1, 'it waits')
  await publishOld(blockOfRows(1, [event('good')]))
  await waitUntil(async () => (await stores.stored()).includes('good'), 'the other partition')
})

test('a stop during a pause ends at once, and the rows come again', async () => {
  await publishOld(blockOfRows(0, scattered))
  let inserts = 0
  const insert: EventInserter['insert'] = async (batch, options) => {
    inserts++
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    return stores.inserter.insert(batch, options)
  }
  const away = { endOffsets: () => Promise.reject(new Error('away')) }
  const isLive = liveTraffic(away, () => [])
  const writer = runOldWriter(stores, { isLive, inserter: { ...stores.inserter, insert } })
  await waitUntil(async () => (await stores.stored()).length > 0, 'the first statement')
  const elapsedMs = startStopwatch()
  await writer.stop()
  expect(elapsedMs()).toBeLessThan(5_000)
  expect(inserts).toBe(1)
  start(runOldWriter)
  await waitUntil(() => stores.isDrained(), 'it is drained')
  expect(await stores.stored()).toHaveLength(scattered.length)
})
