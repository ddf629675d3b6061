import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { startKafka } from '../tests/support/engines/kafka.ts'
import { testSecretsKey } from '../tests/support/secrets-key.ts'
import { spawnProgram } from '../tests/support/service-process.ts'
import { type MeasuredService, startMeasured } from './sluice-rig.ts'

/** A writer and a worker on real engines, for the measurements of jobs. */
export interface JobsRig {
  folder: string
  clickHouseUrl: string
  blobsUrl: string
  postgres: Postgres
  worker: MeasuredService
  stop(): Promise<void>
}

export async function startJobs(): Promise<JobsRig> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const [kafka, clickHouse, engine] = await Promise.all([
    startKafka({ dir: join(folder, 'kafka'), isOptimised: true }),
    startClickHouse({ dir: join(folder, 'clickhouse') }),
    startPostgres({ dir: join(folder, 'postgres') }),
  ])
  const blobsUrl = `file:${join(folder, 'blobs')}`
  const environment = {
    SLUICE_LOG_URL: `kafka://${kafka.brokers}/bench.events`,
    SLUICE_CLICKHOUSE_URL: clickHouse.url,
    SLUICE_POSTGRES_URL: engine.url,
    SLUICE_BLOBS_URL: blobsUrl,
    SLUICE_SECRETS_KEY: testSecretsKey,
  }
  const migrated = await spawnProgram('admin/migrate/main', environment)
  if ((await migrated.exited) !== 0) throw new Error(`migrate failed: ${migrated.output()}`)
  const postgres = openPostgres(engine.url)
  const writer = await startMeasured('writer', environment)
  const worker = await startMeasured('worker', environment)
  return {
    folder,
    clickHouseUrl: clickHouse.url,
    blobsUrl,
    postgres,
    worker,
    stop: async () => {
      await Promise.all([worker.stop(), writer.stop()])
      await postgres.close()
      await Promise.all([kafka.stop(), clickHouse.stop(), engine.stop()])
      await rm(folder, { recursive: true, force: true })
    },
  }
}
