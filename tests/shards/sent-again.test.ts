import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { backfillAgeMs } from '@sluice/contracts/lanes'
import { writerGroup } from '@sluice/event-log/writer-group'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { keyHash } from '@sluice/events/key-hash'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'
import { createTestStores, type RunningWriter, runOldWriter, runWriter, type TestStores } from '../support/writer.ts'
import { type ExportedRow, importRows } from './import-rows.ts'

const shards = 2
const partitions = 4

let cluster: ClickHouseCluster
let stores: TestStores
let gateway: TestGateway
let servers: ClickHouse[]
let writers: RunningWriter[]

beforeAll(async () => {
  cluster = await startClickHouseCluster({ shards })
})

afterAll(async () => {
  await cluster.stop()
})

beforeEach(async () => {
  const database = `test_${randomBytes(6).toString('hex')}`
  const url = cluster.url(database)
  stores = await createTestStores(undefined, partitions, {
    url,
    readerUrl: cluster.url(database, 'sluice_reader'),
    create: () => migrateClickHouse(url),
    drop: () => cluster.drop(database),
  })
  servers = cluster.servers.map((server) => openClickHouse(server.url(database)))
  // A merge would hide rows that were stored twice.
  for (const server of servers) await server.command('SYSTEM STOP MERGES events')
  gateway = await startGateway({ log: stores.log, shards })
  await watermarkStore(gateway.postgres).advance(await stores.log.id(), [undefined], 'backfill')
  writers = [runWriter(stores), runOldWriter({ ...stores, backfill: gateway.backfill })]
})

afterEach(async () => {
  for (const writer of writers) await writer.stop()
  await gateway.stop()
  for (const server of servers) await server.close()
  await stores.drop()
})

async function storedRows(): Promise<ExportedRow[][]> {
  return Promise.all(
    servers.map(async (server) => {
      const { rows } = await server.query<ExportedRow>(
        `SELECT site_id, event_id, event_type, toUnixTimestamp64Milli(timestamp) AS timestamp FROM events
         ORDER BY site_id, event_id, timestamp`,
      )
      return rows
    }),
  )
}

async function waitUntilStored(): Promise<void> {
  const { log, inserter } = stores
  const group = writerGroup(await inserter.storeId())
  await waitUntil(
    async () =>
      [...(await log.committedOffsets(group)), ...(await gateway.backfill.committedOffsets(group))].every(
        ({ offset, endOffset }) => offset === endOffset,
      ),
    'both lanes are drained',
    60_000,
  )
}

test('events that are exported, imported and sent again are stored once, on their own shard', async () => {
  const count = 120
  const events = Array.from({ length: count }, (_, n) => ({
    site_id: `site-${n % 3}`,
    event_type: 'view',
    ...(n % 2 === 0 && { event_id: `given-${n}` }),
    ...(n % 5 === 0 && { timestamp: Date.now() - backfillAgeMs - n * 60_000 }),
  }))
  await waitUntil(async () => {
    expect((await gateway.collect({ site_id: 'warm', event_type: 'x', timestamp: 1_600_000_000_000 })).status).toBe(202)
    return (await gateway.backfill.endOffsets()).some((end) => end > 0n)
  }, 'the gateway uses the backfill log')
  expect((await gateway.collectBatch({ events })).status).toBe(202)
  await waitUntilStored()
  const stored = await storedRows()
  expect(stored.flat().filter(({ site_id }) => site_id !== 'warm')).toHaveLength(count)
  for (const [shard, rows] of stored.entries()) {
    expect(rows.length).toBeGreaterThan(count / 4)
    for (const { site_id, event_id } of rows) expect(keyHash(site_id, event_id) % shards).toBe(shard)
  }

  const exported = stored.flat()
  for (const rows of Map.groupBy(exported, ({ site_id }) => site_id).values()) await importRows(gateway.backfill, rows)
  expect((await gateway.collectBatch({ events: exported })).status).toBe(202)
  await waitUntilStored()
  expect(await storedRows()).toStrictEqual(stored)
})
