import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { ErasureKind } from '@sluice/contracts/erasures'
import type { EventRow } from '@sluice/contracts/event-columns'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { type ErasedRows, hashValue } from '@sluice/event-store/erasures/erased-rows'
import { type EventEraser, openEventEraser } from '@sluice/event-store/erasures/event-eraser'
import { type EventInserter, openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { row, sent } from '../support/event-row.ts'
import { openShardedTestStore, type TestStore } from '../support/test-store.ts'

let cluster: ClickHouseCluster
let store: TestStore
let eraser: EventEraser
let inserter: EventInserter

beforeAll(async () => {
  cluster = await startClickHouseCluster()
  store = await openShardedTestStore(cluster)
  eraser = openEventEraser(store.url)
  inserter = openEventInserter(store.url)
})

afterAll(async () => {
  await eraser.close()
  await inserter.close()
  await store.drop()
  await cluster.stop()
})

const hour = 3_600_000
const dayMs = 24 * hour
const { signal } = new AbortController()

let site: string

beforeEach(() => {
  site = randomUUID()
})

/** Stores events on each shard. */
async function storeOnEach(events: readonly Partial<EventRow>[]): Promise<number> {
  let inserted = 0
  for (const partition of cluster.servers.keys()) {
    const lines = events.map((fields) => JSON.stringify(row(site, fields)))
    const stored = await inserter.insert(
      { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false },
      { queryId: randomUUID(), shouldReplaceRunning: false, partition, timeoutMs: 20_000 },
    )
    inserted += stored.inserted
  }
  return inserted
}

async function erasedBy(kind: ErasureKind, value: string): Promise<ErasedRows> {
  const runner = queryReader(store.reader).runnerFor({ key: 'test', signal, priority: 'interactive' })
  const hashes = kind === 'before' || kind === 'site' ? null : await hashValue({ kind, siteId: site, value }, runner)
  const before = kind === 'before' ? Number(value) : null
  return { erasureId: randomUUID(), siteId: site, kind, hashes, before, requestedAt: Date.now() }
}

/** Rows of the site in a table of each server. */
async function countOnEach(table: 'events' | 'users'): Promise<number[]> {
  return Promise.all(
    cluster.servers.map(async (server) => {
      const clickHouse = openClickHouse(server.url(store.url.replace(/.*\/(\w+)\?.*/, '$1')))
      const { rows } = await clickHouse.query<{ count: number }>(
        `SELECT count() AS count FROM ${table} WHERE site_id = {site:String}`,
        { site },
      )
      await clickHouse.close()
      return rows[0]?.count ?? 0
    }),
  )
}

async function carryOut(erased: ErasedRows): Promise<{ events: number; users: number }> {
  await eraser.storeTombstone(erased)
  await eraser.waitForInserts(signal)
  const counted = await eraser.count(erased)
  await eraser.startDelete([erased])
  await waitUntil(async () => !(await eraser.isDeleting()), 'the deletion has ended')
  return counted
}

describe('an erasure', () => {
  test.each<[ErasureKind, string, number]>([
    ['user_id', 'ada', 1],
    ['session_id', 's2', 2],
    ['event_id', 'e1', 2],
    ['before', String(sent - hour), 2],
    ['site', '', 0],
  ])('of kind %s deletes on every shard, and its copies are stored on none again', async (kind, value, left) => {
    const events = [
      { user_id: 'ada', event_id: 'e1' },
      { user_id: 'ada', session_id: 's2', timestamp: sent - 2 * hour },
      { user_id: 'bob' },
    ]
    expect(await storeOnEach(events)).toBe(6)
    const user = {
      site_id: site,
      environment: 'prod',
      email: '',
      name: '',
      company: '',
      plan: '',
      imported_at: sent,
      version: 1,
    }
    await inserter.insertUsers(
      [Buffer.from(['ada', 'bob'].map((user_id) => JSON.stringify({ ...user, user_id })).join('\n'))],
      {
        timeoutMs: 20_000,
      },
    )
    const erasesUsers = kind === 'user_id' || kind === 'site'
    const erased = await erasedBy(kind, value)
    expect(await carryOut(erased)).toStrictEqual({
      events: 2 * (3 - left),
      users: kind === 'site' ? 2 : erasesUsers ? 1 : 0,
    })
    expect(await countOnEach('events')).toStrictEqual([left, left])
    const usersLeft = kind === 'site' ? 0 : erasesUsers ? 1 : 2
    expect(await countOnEach('users')).toStrictEqual([usersLeft, usersLeft])
    expect(await eraser.count(erased)).toStrictEqual({ events: 0, users: 0 })

    await storeOnEach(events.filter((_, index) => index < 2))
    expect(await eraser.count(erased)).toStrictEqual({ events: 0, users: 0 })
    await eraser.retireTombstone(erased)
    await waitUntil(async () => !(await eraser.isDeleting()), 'the tombstone is retired')
    await storeOnEach(events.filter((_, index) => index < 2))
    expect(await eraser.count(erased)).toStrictEqual({ events: 0, users: 0 })
  })
})

test('retention deletes on every shard, also when only one has old events', async () => {
  await storeOnEach([{ timestamp: sent - 40 * dayMs }, {}])
  await inserter.insert(
    { payloads: [Buffer.from(JSON.stringify(row(site, { timestamp: sent - 90 * dayMs })))], hasUndated: false },
    { queryId: randomUUID(), shouldReplaceRunning: false, partition: 1, timeoutMs: 20_000 },
  )
  const expired = [{ siteId: site, before: sent - 30 * dayMs }]
  const confirmed = () => Promise.resolve()
  const first = await eraser.startExpiry(expired, confirmed)
  expect(first.events).toBe(3)
  expect(first.partitions).toBeGreaterThan(2)
  await waitUntil(async () => !(await eraser.isDeleting()), 'the deletion has ended')
  expect(await countOnEach('events')).toStrictEqual([1, 1])
  expect(await eraser.startExpiry(expired, confirmed)).toStrictEqual({ partitions: 0, events: 0 })
  await eraser.startCleanup()
  await waitUntil(async () => !(await eraser.isDeleting()), 'the masks are applied')
})

test('fails while a shard is unavailable, and goes on when it is back', async () => {
  await storeOnEach([{}])
  const erased = await erasedBy('user_id', 'ada')
  const [, second] = cluster.servers
  const internal = expect.stringContaining(`ClickHouse at ${new URL(second?.url('x') ?? '').origin}: `) as unknown
  await second?.kill()
  try {
    await expect(eraser.storeTombstone(erased)).rejects.toMatchObject({ code: 'unavailable', internal })
    await expect(eraser.count(erased)).rejects.toMatchObject({ code: 'unavailable', internal })
    await expect(eraser.check()).rejects.toMatchObject({ code: 'unavailable', internal })
  } finally {
    await second?.start()
  }
  expect(await carryOut(erased)).toStrictEqual({ events: 2, users: 0 })
  expect(await countOnEach('events')).toStrictEqual([0, 0])
})
