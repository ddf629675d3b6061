import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type ReadBudget, readBudget } from '@sluice/event-log/consumer/read-budget'
import { writerGroup } from '@sluice/event-log/writer-group'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import {
  blockOfRows,
  createTestStores,
  event,
  partitions,
  type RunningWriter,
  runWriter,
  type TestStores,
} from '../../tests/support/writer.ts'

let stores: TestStores
let writer: RunningWriter | undefined

beforeEach(async () => {
  stores = await createTestStores()
})

afterEach(async () => {
  await writer?.stop()
  writer = undefined
  await stores.drop()
})

/** Number of blocks in the log of events that the writer has not committed yet. */
async function uncommitted(): Promise<number> {
  const positions = await stores.log.committedOffsets(writerGroup(await stores.inserter.storeId()))
  return positions.reduce((sum, { offset, endOffset }) => sum + Number(endOffset - offset), 0)
}

const waitUntilDrained = () => waitUntil(async () => (await uncommitted()) === 0, 'the log is drained')

test('the time of each insert is noted, apart for batches with rows that have no timestamp of their own', async () => {
  writer = runWriter(stores)
  const name = 'sluice_writer_insert_seconds_count'
  const counts = async () => (await writer?.metrics.metrics())?.split('\n').filter((line) => line.startsWith(name))
  await stores.publish(blockOfRows(0, [event('dated')]))
  await waitUntilDrained()
  expect(await counts()).toStrictEqual([`${name}{kind="dated"} 1`, `${name}{kind="undated"} 0`])
  const undated = blockOfRows(0, [event('undated', { undated: 1 })])
  await stores.publish({ ...undated, headers: { ...undated.headers, undated: true } })
  await waitUntilDrained()
  expect(await counts()).toStrictEqual([`${name}{kind="dated"} 1`, `${name}{kind="undated"} 1`])
})

describe('rows that can’t be stored', () => {
  test('are published as dead letters, and all other rows of their batch are stored', async () => {
    const good = Array.from({ length: 2_000 }, (_, n) => event(`good-${String(n).padStart(4, '0')}`))
    const bad = [event('no-such-place', { environment: 'moon' }), '{"site_id": "a', event('x', { timestamp: 'noon' })]
    const rows = [...good.slice(0, 700), bad[0] ?? '', ...good.slice(700, 1_400), bad[1] ?? '', ...good.slice(1_400)]
    const cut = { ...blockOfRows(0, good.slice(0, 3)) }
    cut.headers = { ...cut.headers, rows: 5 }
    await stores.publish(blockOfRows(0, rows), blockOfRows(1, [bad[2] ?? '']), cut, blockOfRows(0, [event('last')]))

    writer = runWriter(stores)
    await waitUntilDrained()
    expect(await stores.stored()).toStrictEqual([...good.map(({ event_id: id }) => id), 'last'])
    const text = (row: string | object = '') => (typeof row === 'string' ? row : JSON.stringify(row))
    const dead = await stores.dead()
    expect(dead).toHaveLength(6)
    expect(dead).toEqual(
      expect.arrayContaining([
        { reason: 'refused', row: text(bad[0]) },
        { reason: 'not_json', row: text(bad[1]) },
        { reason: 'refused', row: text(bad[2]) },
        ...good.slice(0, 3).map((row) => ({ reason: 'row_count', row: text(row) })),
      ]),
    )
    expect(await writer.figure('sluice_writer_dead_letters_total', { reason: 'refused' })).toBe(2)
    expect(await writer.figure('sluice_writer_dead_letters_total', { reason: 'unreadable' })).toBe(0)
    expect(writer.lines().filter(({ msg }) => msg === 'rows published as dead letters')).toHaveLength(2)
  })

  test('are durable as dead letters before the batch is committed', async () => {
    await stores.publish(blockOfRows(0, [event('good'), event('bad', { environment: 'moon' })]))
    let isAway = true
    let refusals = 0
    const deadLetters = {
      partitions: () => stores.deadLetters.partitions(),
      publish: (...call: Parameters<typeof stores.deadLetters.publish>) => {
        if (!isAway) return stores.deadLetters.publish(...call)
        refusals++
        return Promise.reject(new Error('the log is unavailable'))
      },
    }
    writer = runWriter(stores, { deadLetters })
    await waitUntil(() => refusals >= 3, 'some refusals')
    expect(await stores.stored()).toStrictEqual(['good'])
    expect(await uncommitted()).toBe(1)
    expect(writer.consumer.warnings()).toStrictEqual(['partition 0 waits: the log is unavailable'])

    isAway = false
    await waitUntilDrained()
    expect(await stores.dead()).toMatchObject([{ reason: 'refused' }])
    expect(writer.consumer.warnings()).toStrictEqual([])
  })

  test('do not make a batch much slower', async () => {
    const rows = Array.from({ length: 10_000 }, (_, n) => event(`bad-${n}`, { environment: 'moon' }))
    await stores.publish(...Array.from({ length: 20 }, (_, n) => blockOfRows(0, rows.slice(n * 500, n * 500 + 500))))
    writer = runWriter(stores)
    await waitUntilDrained()
    expect(await stores.dead()).toHaveLength(10_000)
    expect(await stores.stored()).toStrictEqual([])
  })

  test('are not assumed when the failure is caused by the table', async () => {
    await stores.clickHouse.command('RENAME TABLE events TO events_before')
    await stores.publish(blockOfRows(0, [event('a'), event('b')]))
    writer = runWriter(stores)
    await waitUntil(async () => Number(await writer?.figure('sluice_writer_retries_total')) >= 3, 'attempts')
    // A table that can't hold the rows answers with the same codes as rows that can't be read.
    await stores.clickHouse.command(
      `CREATE TABLE events ENGINE = Memory AS
       SELECT * REPLACE (CAST('mars', 'Enum8(''mars'' = 7)') AS environment), event_key FROM events_before`,
    )
    const before = Number(await writer.figure('sluice_writer_retries_total'))
    await waitUntil(
      async () => Number(await writer?.figure('sluice_writer_retries_total')) > before + 1,
      'more attempts',
    )
    expect(await stores.dead()).toStrictEqual([])

    await stores.clickHouse.command('DROP TABLE events SYNC')
    await stores.clickHouse.command('RENAME TABLE events_before TO events')
    await waitUntilDrained()
    expect(await stores.stored()).toStrictEqual(['a', 'b'])
    expect(await stores.dead()).toStrictEqual([])
  })
})

describe('a stalled partition does not delay the others', () => {
  /** An inserter that fails for every partition but `last`: for as many as the writer serves at a time. */
  const inserterFailingExcept = (last: number, fault: () => Promise<never>): EventInserter => ({
    ...stores.inserter,
    insert: (batch, options) =>
      options.queryId.endsWith(`-${last}`) ? stores.inserter.insert(batch, options) : fault(),
  })
  const last = partitions - 1

  test.each([
    ['inserts hang', () => new Promise<never>(() => undefined)],
    ['inserts are always refused', () => Promise.reject(new ClickHouseError(60, 'there is no table events'))],
    ['inserts get no response', () => Promise.reject(new ClickHouseError(undefined, 'socket hang up'))],
  ])('when its %s', async (_, fault) => {
    const everywhere = Array.from({ length: partitions }, (_, partition) => partition)
    await stores.publish(...everywhere.map((partition) => blockOfRows(partition, [event(`first-${partition}`)])))
    writer = runWriter(stores, { inserter: inserterFailingExcept(last, fault) })
    await waitUntil(async () => (await stores.stored()).length === 1, 'the partition that works')
    for (let n = 0; n < 5; n++) {
      await stores.publish(blockOfRows(last, [event(`next-${n}`)]))
      await waitUntil(async () => (await stores.stored()).length === n + 2, 'its next batch')
    }
    await waitUntil(async () => (await uncommitted()) === partitions - 1, 'its commits')
  })
})

test('what arrives while a batch waits for its turn at ClickHouse is stored with it', async () => {
  const gate = Promise.withResolvers<undefined>()
  const { inserter } = stores
  /** Rows of each insert by partition. */
  const inserts: Record<string, number[]> = {}
  const insert: typeof inserter.insert = async (...call) => {
    const [{ payloads }, { queryId }] = call
    const partition = queryId.slice(-1)
    inserts[partition] = [...(inserts[partition] ?? []), payloads.length]
    await gate.promise
    return inserter.insert(...call)
  }
  /** Bytes of the blocks that the writer has read and not committed. */
  let held = 0
  const unlimited = readBudget(Infinity)
  const budget: ReadBudget = {
    ...unlimited,
    open: (onReleased) => {
      const account = unlimited.open(onReleased)
      const add = (bytes: number): void => {
        held += bytes
        account.add(bytes)
      }
      return { ...account, add }
    },
  }
  writer = runWriter(stores, { inserter: { ...inserter, insert }, budget })
  const last = partitions - 1
  for (let partition = 0; partition < last; partition++) await stores.publish(blockOfRows(partition, [event()]))
  await waitUntil(() => Object.keys(inserts).length === last, 'every slot is taken')
  const heldByInserts = held
  await stores.publish(blockOfRows(last, [event()]))
  const { lag } = writer.consumer
  await waitUntil(
    () => lag().some(({ partition, oldestAppendedAt: at = Infinity }) => partition === last && at + 100 < Date.now()),
    'the batch is due',
  )
  const heldByBlock = held - heldByInserts
  await stores.publish(blockOfRows(last, [event()]), blockOfRows(last, [event()]))
  await waitUntil(() => held >= heldByInserts + 2.5 * heldByBlock, 'the writer has read both')
  gate.resolve(undefined)
  await waitUntilDrained()
  expect(inserts[String(last)]).toStrictEqual([3])
})

test('a stop waits 2 s at most for an insert that hangs', async () => {
  await stores.publish(blockOfRows(0, [event('a')]))
  let inserts = 0
  const insert = () => {
    inserts++
    return new Promise<never>(() => undefined)
  }
  const hanging = runWriter(stores, { inserter: { ...stores.inserter, insert } })
  await waitUntil(() => inserts === 1, 'the insert')
  await hanging.stop()
  expect(await uncommitted()).toBe(1)
})

test('a stop waits for an insert that ends in time, and commits what it has stored', async () => {
  await stores.publish(blockOfRows(0, [event('a')]))
  const begun = Promise.withResolvers<undefined>()
  const gate = Promise.withResolvers<undefined>()
  const insert: typeof stores.inserter.insert = async (...batch) => {
    begun.resolve(undefined)
    await gate.promise
    return stores.inserter.insert(...batch)
  }
  const stopping = runWriter(stores, { inserter: { ...stores.inserter, insert } })
  await begun.promise
  const stopped = stopping.stop()
  gate.resolve(undefined)
  await stopped
  expect(await uncommitted()).toBe(0)
  expect(await stores.stored()).toStrictEqual(['a'])
})

test('a stop does not wait for an unavailable ClickHouse, and the next writer continues at the committed position', async () => {
  await stores.clickHouse.command('RENAME TABLE events TO events_before')
  await stores.publish(blockOfRows(0, [event('a')]))
  const first = runWriter(stores)
  await waitUntil(async () => Number(await first.figure('sluice_writer_retries_total')) >= 2, 'attempts')
  await stores.publish(blockOfRows(0, [event('b')]))
  const elapsedMs = startStopwatch()
  await first.stop()
  expect(elapsedMs()).toBeLessThan(4_500)
  expect(await uncommitted()).toBe(2)

  await stores.clickHouse.command('RENAME TABLE events_before TO events')
  writer = runWriter(stores)
  await waitUntilDrained()
  expect(await stores.stored()).toStrictEqual(['a', 'b'])
})

test('freshness grows while the writer is stalled and is 0 when the log is drained', async () => {
  await stores.clickHouse.command('RENAME TABLE events TO events_before')
  await stores.publish(blockOfRows(0, [event('a')]))
  const running = runWriter(stores)
  writer = running
  const freshness = async (partition: number) =>
    Number(await running.figure('sluice_writer_freshness_seconds', { partition: String(partition) }))
  await waitUntil(async () => (await freshness(0)) > 0.1, 'a first age')
  const first = await freshness(0)
  await waitUntil(async () => (await freshness(0)) > first + 0.5, 'a greater one')
  expect(await freshness(1)).toBe(0)
  expect(await running.figure('sluice_writer_lag_blocks', { partition: '0' })).toBe(1)

  await stores.clickHouse.command('RENAME TABLE events_before TO events')
  await waitUntilDrained()
  await waitUntil(async () => (await freshness(0)) === 0, 'no age')
})
