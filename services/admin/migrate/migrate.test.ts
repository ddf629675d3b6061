import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { parseKafkaUrl } from '@sluice/event-log/kafka/url'
import { withKafkaAdmin } from '@sluice/event-log/kafka/with-admin'
import type { EventLog } from '@sluice/event-log/log'
import { backfillUrl, deadLetterUrl, openDeadLetters, openEventLog } from '@sluice/event-log/open-event-log'
import { formerWriterGroup, writerGroup } from '@sluice/event-log/writer-group'
import { openClickHouse, parseClickHouseUrl, withClickHouse } from '@sluice/event-store/clickhouse/client'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { userVersion } from '@sluice/event-store/insert/insert-users'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { erasureStore } from '@sluice/postgres/erasures'
import { importStore } from '@sluice/postgres/imports'
import { appliedPostgresMigrations, migratePostgres } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { replayPositionStore } from '@sluice/postgres/replay-positions'
import { shardStore } from '@sluice/postgres/shards'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { type ClickHouseCluster, startClickHouseCluster } from '../../../tests/support/engines/clickhouse-cluster.ts'
import type { TestDatabase } from '../../../tests/support/engines/test-databases.ts'
import {
  describeWithKafka,
  type TestClickHouse,
  testClickHouse,
  testKafka,
  testPostgres,
} from '../../../tests/support/engines/test-engines.ts'
import { addImport, segmentDone } from '../../../tests/support/import-jobs.ts'
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

async function migrateStore(logUrl: string, clickHouseUrl: string, { acceptLoss = false } = {}): Promise<string> {
  const postgres = openPostgres(postgresDatabase.url)
  const inserter = openEventInserter(clickHouseUrl)
  try {
    await migrate({ postgres, clickHouseUrl, logUrl, acceptLoss })
    return writerGroup(await inserter.storeId())
  } finally {
    await postgres.close()
    await inserter.close()
  }
}

/** What `npm run migrate -- --plan` prints. */
async function planOf(logUrl: string, clickHouseUrl: string, { acceptLoss = false } = {}): Promise<string> {
  const postgres = openPostgres(postgresDatabase.url)
  return planText({ postgres, clickHouseUrl, logUrl, acceptLoss }).finally(() => postgres.close())
}

/** Consumes as `group` until it has committed `count` blocks. */
async function consume(log: EventLog, group: string, count: number): Promise<void> {
  let committed = 0
  const consumer = log.consumer({
    group,
    batchBytesMax: 1,
    batchRowsMax: 1,
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
    const left = (await before.committedOffsets(formerWriterGroup(await before.id()))).map(({ offset }) => offset)
    expect(left.reduce((sum, next) => sum + next, 0n)).toBe(3n)
    await before.close()

    // As a call leaves it that was interrupted before it reached the log.
    await migrateClickHouse(stores[0]?.url ?? '')
    const groups = [await migrateStore(url, stores[0]?.url ?? ''), await migrateStore(url, stores[0]?.url ?? '')]
    expect(groups[0]).toBe(groups[1])
    const after = await open()
    expect((await after.committedOffsets(groups[0] ?? '')).map(({ offset }) => offset)).toStrictEqual(left)
    await consume(after, groups[0] ?? '', 1)
    await after.close()

    // A later migration does not change the positions of a group that has read further.
    const group = await migrateStore(url, stores[0]?.url ?? '')
    const last = await open()
    expect((await last.committedOffsets(group)).map(({ offset, endOffset }) => endOffset - offset)).toStrictEqual([
      0n,
      0n,
    ])
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

describeWithKafka('an empty store that replaces a lost one', () => {
  test('reads the log from its beginning, whatever the writers from before stores had ids had read', async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions: 1 })
    const log = await openEventLog(url, { logger: capturedLogger().logger })
    const blocks = [0, 0, 0].map((partition) => blockOfRows(partition, [event()]))
    await log.publish(blocks, { timeoutMs })
    await consume(log, formerWriterGroup(await log.id()), 2)
    const [known = '', empty = ''] = stores.map((store) => store.url)
    const positionOf = async (group: string) => (await log.committedOffsets(group)).map(({ offset }) => offset)
    expect(await positionOf(await migrateStore(url, known))).toStrictEqual([2n])
    const group = await migrateStore(url, empty, { acceptLoss: true })
    expect(await positionOf(group)).toStrictEqual([0n])
    // Compose migrates at each start.
    await migrateStore(url, empty)
    expect(await positionOf(group)).toStrictEqual([0n])
    await log.close()
  })
})

describe('a store that ClickHouse has lost', () => {
  const lost = { internal: expect.stringMatching(/has no store of events, and this Postgres knows one.*--accept-loss/) }

  async function databases(url: string): Promise<number> {
    const { database, ...server } = parseClickHouseUrl(url)
    return withClickHouse({ ...server, database: 'default' }, async (clickHouse) => {
      const { rows } = await clickHouse.query('SELECT 1 FROM system.databases WHERE name = {database:String}', {
        database,
      })
      return rows.length
    })
  }

  test('is not replaced by an empty one, and nothing is changed on the server', async () => {
    const [url, [known, empty]] = [`file:${folder}/log`, stores.map((store) => store.url)]
    await migrateStore(url, known ?? '')
    await expect(migrateStore(url, empty ?? '')).rejects.toMatchObject(lost)
    await expect(planOf(url, empty ?? '')).rejects.toMatchObject(lost)
    expect(await databases(empty ?? '')).toBe(0)
  })

  test('is replaced when the loss is accepted: nothing is complete yet, and erasures begin again', async () => {
    const [url, [known, empty]] = [`file:${folder}/log`, stores.map((store) => store.url)]
    const group = await migrateStore(url, known ?? '')
    const postgres = openPostgres(postgresDatabase.url)
    try {
      const { logger } = capturedLogger()
      const log = await openEventLog(url, { logger })
      const watermarks = watermarkStore(postgres)
      const logId = await log.id()
      await log.close()
      await watermarks.advance(logId, [5_000, 5_000, 5_000, 5_000])
      const erasures = erasureStore(postgres)
      await erasures.create({
        erasureId: 'era_1',
        siteId: 'site',
        kind: 'user_id',
        hashes: { key: '1', rowKey: '2' },
        before: null,
        requestedAt: 1_000,
        keyId: 'key',
      })
      const [taken] = await erasures.leases.take(Date.now(), 1)
      if (taken === undefined) throw new Error('no erasure is due')
      await erasures.complete(taken, Date.now())
      expect(await watermarks.readCompleteTimes()).toMatchObject({ live: 5_000 })
      const imports = importStore(postgres)
      const { importId } = await addImport(imports, { type: 'events', segments: 2 }, 1_000)
      const [lease] = await imports.leases.take(Date.now(), 1)
      if (lease === undefined) throw new Error('no import is due')
      await imports.recordSegment(lease, 0, segmentDone)

      expect(await planOf(url, empty ?? '', { acceptLoss: true })).toContain('The lost store: would begin an empty one')
      expect(await watermarks.readCompleteTimes()).toMatchObject({ live: 5_000 })
      expect(await migrateStore(url, empty ?? '', { acceptLoss: true })).not.toBe(group)
      expect(await watermarks.readCompleteTimes()).toMatchObject({ live: 0 })
      expect(await erasures.find('site', 'era_1')).toMatchObject({ status: 'queued', step: 'tombstone' })
      expect((await imports.segments(importId)).map(({ processed }) => processed)).toStrictEqual([
        segmentDone.processed,
        0,
      ])

      // From then on the new store is the one that is known.
      await watermarks.advance(logId, [7_000, 7_000, 7_000, 7_000])
      await migrateStore(url, empty ?? '', { acceptLoss: true })
      expect(await watermarks.readCompleteTimes()).toMatchObject({ live: 7_000 })
    } finally {
      await postgres.close()
    }
  })
})

describe('a Postgres that is lost', () => {
  const lost = {
    internal: expect.stringMatching(/Postgres has no data of Sluice, and ClickHouse holds events.*#postgres-alone/),
  }

  async function tables(): Promise<number> {
    const postgres = openPostgres(postgresDatabase.url)
    return appliedPostgresMigrations(postgres)
      .then(({ length }) => length)
      .finally(() => postgres.close())
  }

  test('is not replaced by an empty one beside events, unless the loss is accepted', async () => {
    const [url, store] = [`file:${folder}/log`, stores[0]?.url ?? '']
    await migrateClickHouse(store)
    const insertEvent = `INSERT INTO events (site_id, environment, event_type, timestamp, event_id)
      VALUES ('site', 'prod', 'seen', 1000, 'a')`
    await withClickHouse(parseClickHouseUrl(store), (clickHouse) => clickHouse.command(insertEvent))
    await expect(planOf(url, store)).rejects.toMatchObject(lost)
    await expect(migrateStore(url, store)).rejects.toMatchObject(lost)
    expect(await tables()).toBe(0)
    const tablesAlone = openPostgres(postgresDatabase.url)
    await migratePostgres(tablesAlone)
    await tablesAlone.close()
    await expect(migrateStore(url, store)).rejects.toMatchObject(lost)
    expect(await planOf(url, store, { acceptLoss: true })).toContain('Nothing was changed')
    const group = await migrateStore(url, store, { acceptLoss: true })
    expect(await migrateStore(url, store)).toBe(group)
  })

  test('is not assumed where a first migration was interrupted: ClickHouse has a store without events', async () => {
    const [url, store] = [`file:${folder}/log`, stores[0]?.url ?? '']
    await migrateClickHouse(store)
    expect(await planOf(url, store)).toContain('Postgres: would add ')
    await migrateStore(url, store)
  })
})

describeWithKafka('dead letters of a new topic', () => {
  test('have not been replayed, whatever was replayed of a topic of that name before', async () => {
    const url = testKafka()?.url ?? ''
    await migrateStore(url, stores[0]?.url ?? '')
    const { logger } = capturedLogger()
    const deadLetters = await openDeadLetters(url, { logger })
    const id = await deadLetters.id()
    for (let n = 0; n < 5; n++) await deadLetters.publish([blockOfRows(0, [event('dead')])], { timeoutMs })
    await deadLetters.close()
    const postgres = openPostgres(postgresDatabase.url)
    try {
      const positions = replayPositionStore(postgres)
      await positions.advance(id, 0, 5n)
      await migrateStore(url, stores[0]?.url ?? '')
      expect(await positions.read(id)).toStrictEqual(new Map([[0, 5n]]))

      const { topic } = parseKafkaUrl(deadLetterUrl(url))
      await withKafkaAdmin(url, logger, async (admin) => {
        await admin.deleteTopics({ topics: [topic] })
        await waitUntil(async () => !(await admin.listTopics()).includes(topic), 'the topic is deleted')
      })
      await migrateStore(url, stores[0]?.url ?? '')
      expect(await positions.read(id)).toStrictEqual(new Map())

      // As in a Postgres that was restored after the topic was created again.
      await positions.advance(id, 0, 5n)
      await migrateStore(url, stores[0]?.url ?? '')
      expect(await positions.read(id)).toStrictEqual(new Map())
    } finally {
      await postgres.close()
    }
  })
})

describe('with a cluster', () => {
  let cluster: ClickHouseCluster
  let database: string

  beforeAll(async () => {
    cluster = await startClickHouseCluster({ shards: 2 })
  })

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

  test('the number of shards is recorded at the first migration, and one server is refused from then on', async () => {
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

  test('imports are numbered after those whose users any shard holds, also with an older Postgres', async () => {
    const url = `file:${folder}/log`
    await migrateStore(url, cluster.url(database))
    const postgres = openPostgres(postgresDatabase.url)
    try {
      const imports = importStore(postgres)
      expect(await addImport(imports, { type: 'users' }, 1_000)).toMatchObject({ seq: 1 })
      await withClickHouse(parseClickHouseUrl(cluster.servers[1]?.url(database) ?? ''), (clickHouse) =>
        clickHouse.command(
          `INSERT INTO users (site_id, user_id, version) VALUES ('site', 'ada', ${userVersion(7, 3)})`,
        ),
      )
      for (const seq of [8, 9]) {
        await migrateStore(url, cluster.url(database))
        expect(await addImport(imports, { type: 'users' }, 1_000)).toMatchObject({ seq })
      }
    } finally {
      await postgres.close()
    }
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
