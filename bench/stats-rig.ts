import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { startPostgres } from '@sluice/engines/postgres'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { migratePostgres } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { startRedis } from '../tests/support/engines/redis.ts'
import { testSecretsKey } from '../tests/support/secrets-key.ts'
import { startService } from '../tests/support/service-process.ts'
import { type ClickHouseRig, startClickHouseRig } from './clickhouse-rig.ts'
import { median, rounded } from './report.ts'

/** A query service on real engines. */
export interface StatsRig {
  /** Address of the service. */
  url: string
  /** A key with all rights. */
  key: string
  store: ClickHouseRig
  clickHouse: ClickHouse
  stop(): Promise<void>
}

/** Starts a query service. ClickHouse has its data in `clickHouseDir`, the other engines in `dir`. */
export async function startStatsRig(dir: string, clickHouseDir: string): Promise<StatsRig> {
  const store = await startClickHouseRig(clickHouseDir)
  const [postgres, redis] = await Promise.all([
    startPostgres({ dir: join(dir, 'postgres') }),
    startRedis({ dir: join(dir, 'redis') }),
  ])
  const database = openPostgres(postgres.url)
  await migratePostgres(database)
  await database.close()
  const { clickHouse, url } = await store.database('sluice')
  const key = generateKey('prod')
  const service = await startService('query', {
    SLUICE_CLICKHOUSE_URL: url,
    SLUICE_POSTGRES_URL: postgres.url,
    SLUICE_REDIS_URL: redis.url,
    SLUICE_BLOBS_URL: `file:${join(dir, 'blobs')}`,
    SLUICE_SECRETS_KEY: testSecretsKey,
    SLUICE_ADMIN_KEY: key,
  })
  return {
    url: service.url,
    key,
    store,
    clickHouse,
    stop: async () => {
      await service.stop()
      await Promise.all([store.stop(), postgres.stop(), redis.stop()])
    },
  }
}

export interface Times {
  p50_ms: number
  p95_ms: number
}

/** Runs once without counting, then `times` times; `runOnce` resolves to milliseconds. */
export async function measure(runOnce: () => Promise<number>, times: number): Promise<Times> {
  await runOnce()
  const taken: number[] = []
  for (let round = 0; round < times; round++) taken.push(await runOnce())
  taken.sort((a, b) => a - b)
  return { p50_ms: rounded(median(taken), 1), p95_ms: rounded(taken[Math.floor(times * 0.95)] ?? 0, 1) }
}
