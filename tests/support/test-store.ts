import { randomBytes, randomUUID } from 'node:crypto'
import { eventColumns } from '@sluice/contracts/event-columns'
import {
  type ClickHouse,
  openClickHouse,
  openClickHouseAt,
  parseClickHouseUrl,
  type QueryParams,
} from '@sluice/event-store/client'
import { readingAddress } from '@sluice/event-store/cluster'
import { openEventInserter } from '@sluice/event-store/insert/insert-events'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import type { ClickHouseCluster } from './engines/clickhouse-cluster.ts'
import { testClickHouse } from './engines/test-engines.ts'

/** A migrated store of events, on one server or on several. */
export interface TestStore {
  /** As a service has it. */
  url: string
  readerUrl: string
  /** Reads all events, as the user who may only read. */
  reader: ClickHouse
  /** Reads all events, as the user with all rights. */
  owner: ClickHouse
  /** Stores events, JSON lines of `EventRow`, as the writer does. */
  insert(lines: readonly string[]): Promise<void>
  /** Runs a statement on the local tables of each server. */
  command(sql: string, params?: QueryParams): Promise<void>
  drop(): Promise<void>
}

/** A store on the server of the tests. */
export async function openTestStore(): Promise<TestStore> {
  const database = testClickHouse()
  await migrateClickHouse(database.url)
  const reader = openClickHouse(database.readerUrl)
  const owner = openClickHouse(database.url)
  const inserter = openEventInserter(database.url)
  return {
    url: database.url,
    readerUrl: database.readerUrl,
    reader,
    owner,
    insert: async (lines) => {
      await inserter.insert(
        { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false },
        { queryId: randomUUID(), replaceRunning: false, timeoutMs: 20_000 },
      )
    },
    command: (sql, params = {}) => owner.command(sql, { params }),
    drop: async () => {
      await inserter.close()
      await reader.close()
      await owner.close()
      await database.drop()
    },
  }
}

/** A store on the shards of a cluster. Its events are stored on the first server, and moved to their shards from there. */
export async function openShardedTestStore(cluster: ClickHouseCluster): Promise<TestStore> {
  const database = `test_${randomBytes(6).toString('hex')}`
  const url = cluster.url(database)
  await migrateClickHouse(url)
  const stagingUrl = cluster.servers[0]?.url(`${database}_staging`) ?? ''
  await migrateClickHouse(stagingUrl)
  const inserter = openEventInserter(stagingUrl)
  const reader = openClickHouseAt(readingAddress(parseClickHouseUrl(cluster.url(database, 'sluice_reader'))))
  const owner = openClickHouseAt(readingAddress(parseClickHouseUrl(url)))
  const servers = cluster.servers.map((server) => openClickHouse(server.url(database)))
  await owner.command(
    `CREATE TABLE ${database}_staging.spread AS ${database}.events
     ENGINE = Distributed('${owner.address.cluster ?? ''}', '${database}', 'events', cityHash64(site_id, event_id))`,
  )
  const columns = eventColumns.map(({ name }) => name).join(', ')
  return {
    url,
    readerUrl: cluster.url(database, 'sluice_reader'),
    reader,
    owner,
    insert: async (lines) => {
      await inserter.insert(
        { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false },
        { queryId: randomUUID(), replaceRunning: false, timeoutMs: 20_000 },
      )
      await owner.command(
        `INSERT INTO ${database}_staging.spread (${columns}) SELECT ${columns} FROM ${database}_staging.events`,
        { settings: { distributed_foreground_insert: '1' } },
      )
      await owner.command(`TRUNCATE TABLE ${database}_staging.events`)
    },
    command: async (sql, params = {}) => {
      for (const server of servers) await server.command(sql, { params })
    },
    drop: async () => {
      await inserter.close()
      for (const client of [reader, owner, ...servers]) await client.close()
      await cluster.drop(`${database}_staging`)
      await cluster.drop(database)
    },
  }
}
