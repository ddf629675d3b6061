import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { testClickHouse, testKafka, testPostgres, testRedis } from './engines/test-engines.ts'
import { testSecretsKey } from './secrets-key.ts'
import { type ServiceProcess, spawnProgram } from './service-process.ts'

/** Fresh topic and databases on the real engines of this test run, migrated, and the environment of each service. */
export interface Cluster {
  key: string
  clickHouseUrl: string
  environment: Readonly<Record<'gateway' | 'writer' | 'query' | 'worker', Record<string, string>>>
  drop(): Promise<void>
}

/** Throws when this run has no Kafka or no Redis, so call it within `describeWithKafka` and `describeWithRedis`. */
export async function createCluster(): Promise<Cluster> {
  const kafka = testKafka()
  const redis = testRedis()
  if (!kafka || !redis) throw new Error('this run has no Kafka, or no Redis')
  const clickHouse = testClickHouse()
  const postgres = await testPostgres()
  const key = generateKey('prod')
  const log = { SLUICE_LOG_URL: kafka.url }
  const store = { SLUICE_CLICKHOUSE_URL: clickHouse.url }
  const database = { SLUICE_POSTGRES_URL: postgres.url }
  const counters = { SLUICE_REDIS_URL: redis.url }
  const folder = await mkdtemp(join(tmpdir(), 'sluice-cluster-'))
  const files = { SLUICE_BLOBS_URL: `file:${folder}`, SLUICE_SECRETS_KEY: testSecretsKey }

  const migrate: ServiceProcess = await spawnProgram('admin/migrate/main', { ...log, ...store, ...database })
  const code = await migrate.exited
  if (code !== 0) throw new Error(`migrate ended with ${code}: ${migrate.output()}`)
  return {
    key,
    clickHouseUrl: clickHouse.url,
    environment: {
      gateway: { ...log, ...database, ...counters },
      writer: { ...log, ...store, ...database },
      query: { ...store, ...database, ...counters, ...files, SLUICE_ADMIN_KEY: key },
      worker: { ...log, ...store, ...database, ...files },
    },
    drop: async () => {
      await clickHouse.drop()
      await postgres.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
