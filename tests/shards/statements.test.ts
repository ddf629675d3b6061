import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import { statementMemory } from '@sluice/event-store/clickhouse/statement-memory'
import { userWeeksScope } from '@sluice/event-store/event-scope'
import { countRowSource } from '@sluice/event-store/stats/row-sources'
import { planStats } from '@sluice/event-store/stats/spec'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { dayMs, now, openTwinStores, type TwinStores } from './stores.ts'

let cluster: ClickHouseCluster
let stores: TwinStores

beforeAll(async () => {
  cluster = await startClickHouseCluster()
  stores = await openTwinStores(cluster, 5_000)
})

afterAll(async () => {
  await stores.drop()
  await cluster.stop()
})

const runner = (signal = new AbortController().signal): QueryRunner =>
  stores.sharded.events.runnerFor({ key: 'test', signal, priority: 'interactive' })

test('shards answer from the projections', async () => {
  const spec = { siteId: 'site', environment: 'all', start: now - 50 * dayMs, end: now - dayMs } as const
  const counted = countRowSource(planStats({ ...spec, metric: 'event_count' }))
  if (counted === undefined) throw new Error('the count is not read from the projection')
  const forced = (projection: string) => `SETTINGS force_optimize_projection_name = '${projection}'`
  const count = await runner().query<{ value: number }>({
    sql: `SELECT ${counted.count} AS value ${counted.from} ${forced('counts')}`,
    params: counted.params,
  })
  expect(count.rows[0]?.value).toBeGreaterThan(100)
  const users = await runner().query<{ value: number }>({
    sql: `SELECT count() AS value FROM (SELECT user_key FROM events WHERE ${userWeeksScope(spec)} GROUP BY user_key) ${forced('user_weeks')}`,
    params: { site_id: 'site' },
  })
  expect(users.rows[0]?.value).toBeGreaterThan(10)
  const other = { sql: `SELECT count() FROM events WHERE url != '' ${forced('counts')}`, params: {} }
  await expect(runner().query(other)).rejects.toMatchObject({
    internal: expect.stringContaining('but not used') as unknown,
  })
})

test('a shard gets the limits of a question, and ends with it when the client leaves', async () => {
  const shard = openClickHouse(cluster.servers[1]?.url(stores.database) ?? '')
  const running = async () => {
    const { rows } = await shard.query<Record<string, string>>(
      `SELECT Settings['max_execution_time'] AS seconds, Settings['max_memory_usage'] AS memory,
         Settings['timeout_overflow_mode'] AS overflow, Settings['skip_unavailable_shards'] AS skips
       FROM system.processes WHERE query LIKE '%sleepEachRow%' AND NOT is_initial_query`,
    )
    return rows
  }
  const client = new AbortController()
  const slow = runner(client.signal).query({
    sql: 'SELECT sum(sleepEachRow(0.002)) FROM events SETTINGS max_block_size = 100, max_threads = 1',
    params: {},
  })
  slow.catch(() => undefined)
  let seen: Record<string, string>[] = []
  await waitUntil(async () => {
    seen = await running()
    return seen.length > 0
  }, 'the shard works on the question')
  const memory = String(await statementMemory(shard)())
  expect(seen).toStrictEqual([{ seconds: '30', memory, overflow: 'throw', skips: '0' }])
  client.abort()
  await expect(slow).rejects.toMatchObject({ code: 'unavailable' })
  await waitUntil(async () => (await running()).length === 0, 'the shard has stopped')
  await shard.close()
})

test('a question that takes a shard too long fails', async () => {
  const sql =
    'SELECT sum(sleepEachRow(0.002)) FROM events SETTINGS max_block_size = 100, max_threads = 1, max_execution_time = 1'
  await expect(runner().query({ sql, params: {} })).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 })
})

test('a question whose shard is killed meanwhile can be asked again', async () => {
  const [, second] = cluster.servers
  const shard = openClickHouse(second?.url(stores.database) ?? '')
  const slow = runner().query({
    sql: 'SELECT sum(sleepEachRow(0.002)) FROM events SETTINGS max_block_size = 100, max_threads = 1',
    params: {},
  })
  slow.catch(() => undefined)
  await waitUntil(async () => {
    const { rows } = await shard.query(
      `SELECT 1 FROM system.processes WHERE query LIKE '%sleepEachRow%' AND NOT is_initial_query`,
    )
    return rows.length > 0
  }, 'the shard works on the question')
  await shard.close()
  await second?.kill()
  try {
    await expect(slow).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 })
  } finally {
    await second?.start()
  }
})
