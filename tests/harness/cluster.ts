import { generateKey } from '@sluice/contracts/api-key'
import { testClickHouse, testKafka, testPostgres } from '@sluice/engines/testing'
import { type ServiceProcess, spawnService } from './service-process.ts'

/** Fresh topic and databases on the real engines of this test run, migrated, and what each service is told of them. */
export interface Cluster {
  key: string
  clickHouseUrl: string
  environment: Readonly<Record<'gateway' | 'writer' | 'query', Record<string, string>>>
  drop(): Promise<void>
}

/** Throws when this run has no Kafka: callers are `describeWithKafka`. */
export async function createCluster(): Promise<Cluster> {
  const kafka = testKafka()
  if (!kafka) throw new Error('this run has no Kafka')
  const clickHouse = testClickHouse()
  const postgres = await testPostgres()
  const key = generateKey('prod')
  const log = { SLUICE_LOG_URL: kafka.url }
  const store = { SLUICE_CLICKHOUSE_URL: clickHouse.url }
  const database = { SLUICE_POSTGRES_URL: postgres.url }

  const migrate: ServiceProcess = await spawnService('migrate', { ...log, ...store, ...database })
  const code = await migrate.exited
  if (code !== 0) throw new Error(`migrate ended with ${code}: ${migrate.output()}`)
  return {
    key,
    clickHouseUrl: clickHouse.url,
    environment: {
      gateway: { ...log, ...database },
      writer: { ...log, ...store },
      query: { ...store, ...database, SLUICE_ADMIN_KEY: key },
    },
    drop: async () => {
      await clickHouse.drop()
      await postgres.drop()
    },
  }
}
