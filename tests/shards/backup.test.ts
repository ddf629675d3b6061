import { randomUUID } from 'node:crypto'
import { cp, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { openStoreBackup, type ShardBackup, type StoreBackup } from '@sluice/event-store/backup'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { hashValue } from '@sluice/event-store/erasures/erased-rows'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { openShardedTestStore, type TestStore } from '../support/test-store.ts'

let folder: string
let cluster: ClickHouseCluster
let store: TestStore
let database: string
let backup: StoreBackup
/** An empty database on the same servers, to which `backup` is restored. */
let target: string
let restored: StoreBackup
let shardBackups: readonly ShardBackup[]
let storeId: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-shard-backups-'))
  // As if the tables were larger than ClickHouse drops by default.
  cluster = await startClickHouseCluster({ backupsDir: folder, dropBytesMax: 1 })
  store = await openShardedTestStore(cluster)
  database = databaseOf(store.url)
  await store.insert(['ann', 'bob', 'cid', 'dan', 'eve', 'fay', 'gus', 'hal'].map((user) => lineOf(user)))
  backup = openStoreBackup(store.url)
  storeId = await backup.storeId()
  shardBackups = await backup.backUp({ kind: 'disk', disk: 'backups', name: 'bak_1' })
})

afterAll(async () => {
  await backup.close()
  await store.drop()
  await cluster.stop()
  await rm(folder, { recursive: true })
})

beforeEach(() => {
  target = `test_${randomUUID().slice(0, 8)}`
  restored = openStoreBackup(cluster.url(target))
})

afterEach(async () => {
  await restored.close()
  await cluster.drop(target)
})

const databaseOf = (url: string): string => new URL(url).pathname.slice(1)
const sent = Date.now() - 3_600_000
const lineOf = (user: string): string =>
  JSON.stringify({
    site_id: 'site',
    environment: 'prod',
    event_type: 'view',
    timestamp: sent,
    event_id: user,
    user_id: user,
    received_at: sent,
  })

async function usersOnEach(of: string): Promise<string[]> {
  return Promise.all(
    cluster.servers.map(async (server) => {
      const clickHouse = openClickHouse(server.url(of))
      const { rows } = await clickHouse.query<{ users: string }>(
        'SELECT arrayStringConcat(arraySort(groupArray(user_id))) AS users FROM events',
      )
      await clickHouse.close()
      return rows[0]?.users ?? ''
    }),
  )
}

/** Names of the databases of the servers that belong to the target. */
async function databases(): Promise<string[]> {
  const found = await Promise.all(
    cluster.servers.map(async (server) => {
      const clickHouse = openClickHouse(server.url('default'))
      const { rows } = await clickHouse.query<{ name: string }>(
        `SELECT name FROM system.databases WHERE startsWith(name, {target:String})`,
        { target },
      )
      await clickHouse.close()
      return rows.map(({ name }) => name)
    }),
  )
  return found.flat()
}

const locations = () => shardBackups.map(({ place }) => place)

test('a backup has a piece of each shard, which a restore brings back to its place', async () => {
  expect(shardBackups).toMatchObject([
    { place: { name: 'bak_1/shard-1' }, bytes: expect.any(Number) },
    { place: { name: 'bak_1/shard-2' }, bytes: expect.any(Number) },
  ])
  const before = await usersOnEach(database)
  expect(before.every((users) => users !== '')).toBe(true)
  expect(await restored.isEmpty()).toBe(true)
  await restored.stage(locations(), { database, storeId })
  expect(await restored.isEmpty()).toBe(true)
  await restored.publishStaged()
  expect(await usersOnEach(target)).toStrictEqual(before)
  expect(await restored.storeId()).toBe(storeId)
  // The tables over all shards, and the writers' places.
  expect(await migrateClickHouse(cluster.url(target))).toStrictEqual([])
  const inserter = openEventInserter(cluster.url(target))
  await inserter.checkSchema()
  await inserter.close()
})

test('erasures are repeated on every shard', async () => {
  const runner = queryReader(store.reader).runnerFor({
    key: 'test',
    signal: new AbortController().signal,
    priority: 'interactive',
  })
  const erasures = await Promise.all(
    ['ann', 'bob', 'cid', 'dan'].map(async (value) => ({
      erasureId: `era_${value}`,
      siteId: 'site',
      kind: 'user_id' as const,
      hashes: await hashValue({ kind: 'user_id', siteId: 'site', value }, runner),
      before: null,
      requestedAt: Date.now(),
    })),
  )
  await restored.stage(locations(), { database, storeId })
  await restored.eraseStaged(erasures)
  await restored.publishStaged()
  const left = (await usersOnEach(target)).join('')
  expect(left).toHaveLength(4 * 3)
  expect(left).not.toMatch(/ann|bob|cid|dan/)
})

test('an incremental backup of the shards needs that of before', async () => {
  const next = await backup.backUp({ kind: 'disk', disk: 'backups', name: 'bak_2' }, locations())
  await restored.stage(
    next.map(({ place }) => place),
    { database, storeId },
  )
  await restored.publishStaged()
  expect(await usersOnEach(target)).toStrictEqual(await usersOnEach(database))
})

test('a missing piece is found before anything is changed, on every server', async () => {
  const piece = join(folder, '2', 'bak_1', 'shard-2')
  await rename(piece, `${piece}-away`)
  try {
    await expect(restored.stage(locations(), { database, storeId })).rejects.toThrow(/shard-2.* not (found|exist)/s)
  } finally {
    await rename(`${piece}-away`, piece)
  }
  expect(await databases()).toStrictEqual([])
})

test('the piece of another shard is refused', async () => {
  const [own, other] = [join(folder, '2', 'bak_1', 'shard-2'), join(folder, '1', 'bak_1', 'shard-1')]
  await rename(own, `${own}-away`)
  try {
    await cp(other, own, { recursive: true })
    await expect(restored.stage(locations(), { database, storeId })).rejects.toThrow('another shard at that place')
  } finally {
    await rm(own, { recursive: true, force: true })
    await rename(`${own}-away`, own)
  }
  expect(await databases()).toStrictEqual([])
})

test('another number of shards is refused with the sentence on what to do', async () => {
  await expect(restored.stage(locations().slice(0, 1), { database, storeId })).rejects.toThrow(
    'The backup is of 1 server of ClickHouse, and SLUICE_CLICKHOUSE_URL leads to 2. A backup can be restored only to the same number: set SLUICE_CLICKHOUSE_URL to a single server.',
  )
  const single = openStoreBackup(cluster.servers[0]?.url(target) ?? '')
  await expect(single.stage(locations(), { database, storeId })).rejects.toThrow(
    'The backup is of 2 shards of ClickHouse, and SLUICE_CLICKHOUSE_URL leads to 1. A backup can be restored only to the same number: set SLUICE_CLICKHOUSE_URL to a cluster of 2 shards ("?cluster=").',
  )
  await single.close()
  expect(await databases()).toStrictEqual([])
})

test('one shard by itself is refused, because it is no backup of the store', async () => {
  const [first] = cluster.servers
  const single = openStoreBackup(first?.url(database) ?? '')
  await expect(single.storeId()).rejects.toMatchObject({
    internal: expect.stringMatching(/holds shard 1 of 2 of its store.*name the cluster of its 2 shards/),
  })
  await single.close()
})

test('servers with other migrations are refused, and so is one without a shard', async () => {
  const [, second] = cluster.servers
  await migrateClickHouse(cluster.url(target))
  const clickHouse = openClickHouse(second?.url(target) ?? '')
  await clickHouse.command("DELETE FROM schema_migrations WHERE name = '010-shards'")
  await expect(restored.appliedMigrations()).rejects.toThrow('have different migrations. Run "npm run migrate".')
  await clickHouse.command('TRUNCATE TABLE store SETTINGS max_table_size_to_drop = 0')
  await expect(restored.storeId()).rejects.toThrow('holds no shard of the store')
  await clickHouse.close()
})
