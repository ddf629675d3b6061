import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import type { UserRow } from '@sluice/event-store/insert/insert-users'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { FatalError } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ClickHouseCluster, startClickHouseCluster } from '../../tests/support/engines/clickhouse-cluster.ts'
import {
  blockOfRows,
  createTestStores,
  event,
  type RunningWriter,
  runOldWriter,
  runWriter,
  type TestStores,
  timeoutMs,
} from '../../tests/support/writer.ts'

const shards = 2
const partitions = 4

let cluster: ClickHouseCluster
let database: string
let stores: TestStores
let servers: ClickHouse[] = []
let writers: RunningWriter[] = []

beforeAll(async () => {
  cluster = await startClickHouseCluster({ shards })
})

afterAll(async () => {
  await cluster.stop()
})

async function open(partitionCount: number): Promise<void> {
  database = `test_${randomBytes(6).toString('hex')}`
  const url = cluster.url(database)
  stores = await createTestStores(undefined, partitionCount, {
    url,
    readerUrl: cluster.url(database, 'sluice_reader'),
    create: () => migrateClickHouse(url),
    drop: () => cluster.drop(database),
  })
  servers = cluster.servers.map((server) => openClickHouse(server.url(database)))
  // A merge would hide rows that were stored twice.
  for (const server of servers) await server.command('SYSTEM STOP MERGES events')
}

afterEach(async () => {
  for (const writer of writers) await writer.stop()
  writers = []
  for (const server of servers) await server.close()
  await stores.drop()
})

/** Ids of the rows on each server. */
async function storedIds(): Promise<string[][]> {
  return Promise.all(
    servers.map(async (server) => {
      const { rows } = await server.query<{ id: string }>('SELECT event_id AS id FROM events ORDER BY id')
      return rows.map(({ id }) => id)
    }),
  )
}

const partitionOf = (id: string): number => Number(id.slice('event-'.length)) % partitions
const ids = Array.from({ length: 400 }, (_, n) => `event-${String(n).padStart(3, '0')}`)
const idsOf = (shard: number): string[] => ids.filter((id) => partitionOf(id) % shards === shard)
const blocksOf = (wanted: readonly string[]) =>
  [...Map.groupBy(wanted, partitionOf)].map(([partition, some]) =>
    blockOfRows(
      partition,
      some.map((id) => event(id)),
    ),
  )

describe('with four partitions on two shards', () => {
  beforeEach(() => open(partitions))

  test('each event is stored once, on the shard of its partition, although its copies come by both lanes', async () => {
    const blocks = blocksOf(ids)
    await stores.publish(...blocks)
    await stores.backfill.publish(blocks, { timeoutMs })
    writers = [runWriter(stores), runOldWriter(stores)]
    await waitUntil(() => stores.isDrained(), 'both lanes are drained')
    expect(await storedIds()).toStrictEqual([idsOf(0), idsOf(1)])
  })

  test('a server that is unavailable stops its own partitions alone, and its rows are stored once when it is back', async () => {
    const away = cluster.servers[1]
    const second = { ...stores, inserter: openEventInserter(cluster.url(database)) }
    writers = [runWriter(stores), runOldWriter(second)]
    await stores.publish(...blocksOf(ids.slice(0, 100)))
    await waitUntil(() => stores.isDrained(), 'the first events are stored')
    await away?.kill()
    await stores.publish(...blocksOf(ids.slice(100)))
    await stores.backfill.publish(blocksOf(ids), { timeoutMs })
    const isStored = async (): Promise<boolean> => {
      const { rows } = (await servers[0]?.query<{ id: string }>('SELECT event_id AS id FROM events ORDER BY id')) ?? {}
      return rows?.length === idsOf(0).length
    }
    await waitUntil(isStored, 'the events of the other server are stored')
    const [writer] = writers
    await waitUntil(() => writer?.consumer.warnings().length === 2, 'its partitions wait')
    for (const warning of writer?.consumer.warnings() ?? [])
      expect(warning).toMatch(/^partition [13] waits: ClickHouse at http:\/\/127\.0\.0\.2:\d+: /)
    await expect(stores.inserter.check()).rejects.toThrow()
    // Those of the other one are read to their end.
    const lag = (): number[] =>
      writer?.consumer.lag().flatMap(({ partition, blocks }) => (blocks > 0 ? [partition] : [])) ?? []
    await waitUntil(() => lag().length === 2, 'the others are at their end')
    expect(lag().toSorted()).toStrictEqual([1, 3])

    await away?.start()
    await waitUntil(() => stores.isDrained(), 'both lanes are drained', 120_000)
    await stores.inserter.check()
    expect(await storedIds()).toStrictEqual([idsOf(0), idsOf(1)])
    await second.inserter.close()
  })

  test('servers that were swapped take no insert, neither of a writer that runs nor of one that starts', async () => {
    await stores.inserter.checkSchema()
    const insertInto = (inserter: typeof stores.inserter, partition: number) =>
      inserter.insert(
        { payloads: [Buffer.from(`${JSON.stringify(event())}\n`)], hasUndated: false },
        { queryId: `writer-${database}-${partition}`, shouldReplaceRunning: false, partition, timeoutMs },
      )
    await insertInto(stores.inserter, 2)
    for (const server of servers) {
      await server.command('INSERT INTO store SELECT id, server, 1 - shard, shards, now64(3) FROM store FINAL')
    }
    for (const partition of [0, 1]) {
      await expect(insertInto(stores.inserter, partition)).rejects.toMatchObject({
        retryable: false,
        internal: expect.stringMatching(/another ClickHouse server than that of its shard.*Each host of the cluster/),
      })
    }
    const started = openEventInserter(cluster.url(database))
    await expect(started.checkSchema()).rejects.toMatchObject({
      internal: expect.stringMatching(/holds shard 2 of 2 .* makes it shard 1 of 2\. Give the servers the order/),
    })
    await expect(insertInto(started, 1)).rejects.toMatchObject({
      internal: expect.stringMatching(/holds shard [12] of 2/),
    })
    await started.close()
    expect((await storedIds()).map(({ length }) => length)).toStrictEqual([1, 0])
  })

  test('a writer whose URL names no cluster refuses the server of a shard', async () => {
    const alone = openEventInserter(cluster.servers[0]?.url(database) ?? '')
    await expect(alone.storeId()).rejects.toMatchObject({
      internal: expect.stringMatching(/holds shard 1 of 2 .* makes it shard 1 of 1/),
    })
    await alone.close()
  })

  test('a server with a shard of another store takes no insert', async () => {
    await servers[1]?.command(
      'INSERT INTO store (id, server, shard, shards) SELECT generateUUIDv4(), server, shard, shards FROM store',
    )
    await servers[1]?.command('ALTER TABLE store DELETE WHERE id = {id:UUID} SETTINGS mutations_sync = 2', {
      params: { id: await stores.inserter.storeId() },
    })
    await expect(openEventInserter(cluster.url(database)).checkSchema()).rejects.toMatchObject({
      internal: expect.stringMatching(/holds a shard of another store/),
    })
  })

  test('users are stored on every shard', async () => {
    const user: UserRow = {
      site_id: 'site',
      environment: 'prod',
      user_id: 'ada',
      email: 'ada@example.org',
      name: '',
      company: '',
      plan: 'pro',
      imported_at: Date.now(),
      version: '1',
    }
    await stores.inserter.insertUsers([Buffer.from(`${JSON.stringify(user)}\n`)], { timeoutMs })
    for (const server of servers) {
      const { rows } = await server.query('SELECT user_id, plan FROM users FINAL')
      expect(rows).toStrictEqual([{ user_id: 'ada', plan: 'pro' }])
    }
  })
})

test('a writer does not start when the partitions are not spread evenly over the shards, and says what to do', async () => {
  await open(3)
  const stopped = runWriter(stores).stop()
  await expect(stopped).rejects.toThrow(FatalError)
  await expect(stopped).rejects.toThrow('the number of partitions must be a multiple of 2')
})
