import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import type { EventLog } from '@sluice/event-log/log'
import { backfillUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { formerWriterGroup, writerGroup } from '@sluice/event-log/writer-group'
import { openClickHouse } from '@sluice/event-store/client'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { openPostgres } from '@sluice/postgres/open'
import { shardStore } from '@sluice/postgres/shards'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { type ClickHouseCluster, startClickHouseCluster } from '../../../tests/support/engines/clickhouse-cluster.ts'
import {
  describeWithKafka,
  type TestClickHouse,
  testClickHouse,
  type TestDatabase,
  testKafka,
  testPostgres,
} from '../../../tests/support/engines/test-engines.ts'
import { blockOfRows, event, timeoutMs } from '../../../tests/support/writer.ts'
import { migrate } from './migrate.ts'
import { planText } from './plan.ts'

let folder: string
let postgresDatabase: TestDatabase
let stores: TestClickHouse[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-migrate-'))
  postgresDatabase = await testPostgres()
  stores = [testClickHouse(), testClickHouse()]
})

afterEach(async () => {
  await postgresDatabase.drop()
  for (const store of stores) await store.drop()
  await rm(folder, { recursive: true })
})

async function migrateStore(logUrl: string, clickHouseUrl: string): Promise<string> {
  const postgres = openPostgres(postgresDatabase.url)
  const inserter = openEventInserter(clickHouseUrl)
  try {
    await migrate({ postgres, clickHouseUrl, logUrl })
    return writerGroup(await inserter.storeId())
  } finally {
    await postgres.close()
    await inserter.close()
  }
}

/** What `npm run migrate -- --plan` prints. */
async function planOf(logUrl: string, clickHouseUrl: string): Promise<string> {
  const postgres = openPostgres(postgresDatabase.url)
  return planText({ postgres, clickHouseUrl, logUrl }).finally(() => postgres.close())
}

/** Consumes as `group` until it has committed `count` blocks. */
async function consume(log: EventLog, group: string, count: number): Promise<void> {
  let committed = 0
  const consumer = log.consumer({
    group,
    maxBatchBytes: 1,
    maxBatchRows: 1,
    lingerMs: 0,
    onClaim: async (claim) => {
      for await (const batch of claim.batches()) {
        if (committed === count) continue
        committed++
        await claim.commit(batch)
        if (committed === count) void consumer.stop()
      }
    },
  })
  await consumer.run()
}

function describeTakeover(name: string, createUrl: () => Promise<string>): void {
  test(`writers continue where those of an earlier build stopped: ${name}`, async () => {
    const url = await createUrl()
    const { logger } = capturedLogger()
    const open = (): Promise<EventLog> => openEventLog(url, { logger, file: { partitions: 2 } })
    const before = await open()
    await before.publish(
      [1, 1, 1, 0].map((partition) => blockOfRows(partition, [event()])),
      { timeoutMs },
    )
    await consume(before, formerWriterGroup(await before.id()), 3)
    const left = (await before.positions(formerWriterGroup(await before.id()))).map(({ next }) => next)
    expect(left.reduce((sum, next) => sum + next, 0n)).toBe(3n)
    await before.close()

    const groups = [await migrateStore(url, stores[0]?.url ?? ''), await migrateStore(url, stores[0]?.url ?? '')]
    expect(groups[0]).toBe(groups[1])
    const after = await open()
    expect((await after.positions(groups[0] ?? '')).map(({ next }) => next)).toStrictEqual(left)
    await consume(after, groups[0] ?? '', 1)
    await after.close()

    // A later migration leaves the positions of a group that has read on.
    const group = await migrateStore(url, stores[0]?.url ?? '')
    const last = await open()
    expect((await last.positions(group)).map(({ next, end }) => end - next)).toStrictEqual([0n, 0n])
    await last.close()
  })
}

describe('with a file', () => {
  describeTakeover('SQLite', () => Promise.resolve(`file:${folder}/log`))
})

describeWithKafka('with Kafka', () => {
  describeTakeover('Kafka', async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions: 2 })
    return url
  })
})

describe('with a cluster', () => {
  let cluster: ClickHouseCluster
  let database: string

  beforeAll(async () => {
    cluster = await startClickHouseCluster({ shards: 2 })
  }, 120_000)

  afterAll(async () => {
    await cluster.stop()
  })

  beforeEach(() => {
    database = `test_${randomBytes(6).toString('hex')}`
  })

  afterEach(async () => {
    await cluster.drop(database)
  })

  async function notedShards(): Promise<number | undefined> {
    const postgres = openPostgres(postgresDatabase.url)
    return shardStore(postgres)
      .read()
      .finally(() => postgres.close())
  }

  async function databases(): Promise<number> {
    const clickHouse = openClickHouse(cluster.servers[0]?.url('default') ?? '')
    const { rows } = await clickHouse.query<{ count: number }>(
      'SELECT count() AS count FROM system.databases WHERE name = {database:String}',
      { database },
    )
    await clickHouse.close()
    return rows[0]?.count ?? NaN
  }

  test('the number of shards is noted at the first migration, and one server is refused from then on', async () => {
    const url = `file:${folder}/log`
    const group = await migrateStore(url, cluster.url(database))
    expect(await notedShards()).toBe(2)
    expect(await migrateStore(url, cluster.url(database))).toBe(group)
    const [store] = stores
    await expect(migrateStore(url, store?.url ?? '')).rejects.toMatchObject({
      internal: expect.stringMatching(/leads to one server, and the events are stored on a cluster of 2 shards/),
    })
    expect(await notedShards()).toBe(2)
    await expect(planOf(url, store?.url ?? '')).rejects.toMatchObject({
      internal: expect.stringMatching(/leads to one server, and the events are stored on a cluster of 2 shards/),
    })
  })

  test('a cluster is refused where the events are on one server, and nothing is changed there', async () => {
    await migrateStore(`file:${folder}/log`, stores[0]?.url ?? '')
    expect(await notedShards()).toBe(1)
    await expect(migrateStore(`file:${folder}/log`, cluster.url(database))).rejects.toMatchObject({
      internal: expect.stringMatching(/leads to a cluster of 2 shards, and the events are stored on one server/),
    })
    expect(await databases()).toBe(0)
  })

  test('a log whose partitions are not spread evenly over the shards is refused', async () => {
    const url = `file:${folder}/log`
    const { logger } = capturedLogger()
    await (await openEventLog(url, { logger, file: { partitions: 3 } })).close()
    await expect(migrateStore(url, cluster.url(database))).rejects.toMatchObject({
      internal: expect.stringMatching(/The log has 3 partitions and ClickHouse 2 shards.*must be a multiple of 2/),
    })
    expect(await notedShards()).toBeUndefined()
  })

  test('a log that holds events of another store is refused', async () => {
    const url = `file:${folder}/log`
    const { logger } = capturedLogger()
    const log = await openEventLog(url, { logger })
    await log.publish([blockOfRows(0, [event()])], { timeoutMs })
    await log.close()
    await expect(migrateStore(url, cluster.url(database))).rejects.toMatchObject({
      internal: expect.stringMatching(/The log has held events .* Name a new topic in SLUICE_LOG_URL/),
    })
    expect(await notedShards()).toBeUndefined()
  })

  describeWithKafka('a plan is refused as the migration would be', () => {
    test.each([
      ['without a word about topics that are missing', undefined, undefined, undefined],
      [
        'when partitions are not spread evenly over the shards',
        3,
        undefined,
        /The log has 3 partitions and ClickHouse 2/,
      ],
      ['when the log has held events', 4, 'log', /The log has held events .* Name a new topic in SLUICE_LOG_URL/],
      ['when the backfill log has', 4, 'backfill', /The log has held events .* Name a new topic in SLUICE_LOG_URL/],
    ])('%s', async (_, partitions, used, refusal) => {
      const url = testKafka()?.url ?? ''
      if (partitions !== undefined) await ensureTopics(url, { partitions })
      if (used !== undefined) {
        const { logger } = capturedLogger()
        const log = await openEventLog(used === 'log' ? url : backfillUrl(url), { logger })
        await log.publish([blockOfRows(0, [event()])], { timeoutMs })
        await log.close()
      }
      const plan = planOf(url, cluster.url(database))
      if (refusal === undefined) expect(await plan).toContain('Topics: would add ')
      else await expect(plan).rejects.toMatchObject({ internal: expect.stringMatching(refusal) })
      expect(await databases()).toBe(0)
    })
  })
})
