import { randomBytes, randomUUID } from 'node:crypto'
import type { EventRow } from '@sluice/contracts/event-columns'
import {
  type ClickHouse,
  openClickHouse,
  openClickHouseAt,
  parseClickHouseUrl,
  type QueryParams,
} from '@sluice/event-store/clickhouse/client'
import { readingAddress } from '@sluice/event-store/clickhouse/cluster'
import { type EventInserter, openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { keyHash } from '@sluice/events/key-hash'
import type { ClickHouseCluster } from './engines/clickhouse-cluster.ts'
import { testClickHouse } from './engines/test-engines.ts'
import { patientSeconds } from './patient-reader.ts'

/** A migrated store of events, on one server or on several. */
export interface TestStore {
  /** As in a service. */
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

const patient = { requestTimeoutMs: patientSeconds * 1_000 }

/** A store on the server of the tests. */
export async function openTestStore(): Promise<TestStore> {
  const database = testClickHouse()
  await database.create()
  const reader = openClickHouse(database.readerUrl, patient)
  const owner = openClickHouse(database.url, patient)
  const inserter = openEventInserter(database.url)
  return {
    url: database.url,
    readerUrl: database.readerUrl,
    reader,
    owner,
    insert: (lines) => insertInto(inserter, lines, 0),
    command: (sql, params = {}) => owner.command(sql, { params }),
    drop: async () => {
      await inserter.close()
      await reader.close()
      await owner.close()
      await database.drop()
    },
  }
}

/**
 * A store on the shards of a cluster; each event is on the shard of its partition, as the gateway and the writer place
 * it.
 */
export async function openShardedTestStore(cluster: ClickHouseCluster): Promise<TestStore> {
  const database = `test_${randomBytes(6).toString('hex')}`
  const url = cluster.url(database)
  const readerUrl = cluster.url(database, 'sluice_reader')
  await migrateClickHouse(url)
  const inserter = openEventInserter(url)
  const reader = openClickHouseAt(readingAddress(parseClickHouseUrl(readerUrl)), patient)
  const owner = openClickHouseAt(readingAddress(parseClickHouseUrl(url)), patient)
  const servers = cluster.servers.map((server) => openClickHouse(server.url(database)))
  return {
    url,
    readerUrl,
    reader,
    owner,
    insert: async (lines) => {
      for (const partition of servers.keys()) {
        const own = lines.filter((line) => {
          const { site_id, event_id } = JSON.parse(line) as EventRow
          return keyHash(site_id, event_id) % servers.length === partition
        })
        if (own.length > 0) await insertInto(inserter, own, partition)
      }
    },
    command: async (sql, params = {}) => {
      for (const server of servers) await server.command(sql, { params })
    },
    drop: async () => {
      await inserter.close()
      for (const client of [reader, owner, ...servers]) await client.close()
      await cluster.drop(database)
    },
  }
}

async function insertInto(inserter: EventInserter, lines: readonly string[], partition: number): Promise<void> {
  await inserter.insert(
    { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false },
    { queryId: randomUUID(), shouldReplaceRunning: false, partition, timeoutMs: 60_000 },
  )
}
