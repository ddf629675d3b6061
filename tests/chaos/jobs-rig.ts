import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { startKafka } from '../support/engines/kafka.ts'
import { startRedis } from '../support/engines/redis.ts'
import { readBucketUrl } from '../support/engines/s3-bucket.ts'
import { startSeaweedfs } from '../support/engines/seaweedfs.ts'
import { testSecretsKey } from '../support/secrets-key.ts'
import { type ServiceProcess, spawnService } from '../support/service-process.ts'
import {
  type Keep,
  keepEveryPart,
  makeFolder,
  migrate,
  type RestartableService,
  startRestartable,
  startWith,
  together,
} from './rig-parts.ts'

export type BlobPlace = 'file' | 's3'

/** What jobs need, each in a separate process: the engines, a query service, a writer, and one worker at a time. */
export interface JobsRig {
  /** An admin key. */
  key: string
  query: RestartableService
  writer: RestartableService
  clickHouse: ClickHouse
  postgres: Postgres
  blobs: BlobStore
  /** The folder of the blobs, unless they are in S3. */
  blobsFolder: string | undefined
  /** The workers' folder for temporary files. */
  temporaryFolder: string
  /** Starts a worker, and does not wait until it is ready. The previous worker must have ended. */
  startWorker(): Promise<ServiceProcess>
  /** Ends everything and removes its data. */
  stop(): Promise<void>
}

/**
 * Starts all parts with fresh data in a temporary folder. Merges of ClickHouse are off, so that a row that is stored
 * twice stays visible.
 */
export function startJobsRig(place: BlobPlace): Promise<JobsRig> {
  return startWith((keep) => startParts(keep, place))
}

async function startParts(keep: Keep, place: BlobPlace): Promise<Omit<JobsRig, 'stop'>> {
  const folder = await keep(makeFolder(), (dir) => rm(dir, { recursive: true, force: true }))
  const [kafka, server, database, redis, store] = await together([
    keep(startKafka({ dir: join(folder, 'kafka') }), (engine) => engine.stop()),
    keep(startClickHouse({ dir: join(folder, 'clickhouse') }), (engine) => engine.stop()),
    keep(startPostgres({ dir: join(folder, 'postgres'), durable: false }), (engine) => engine.stop()),
    keep(startRedis({ dir: join(folder, 'redis') }), (engine) => engine.stop()),
    startBlobs(keep, folder, place),
  ])
  const log = { SLUICE_LOG_URL: `kafka://${kafka.brokers}/jobs.events` }
  const events = { SLUICE_CLICKHOUSE_URL: server.url }
  const records = { SLUICE_POSTGRES_URL: database.url }
  const secrets = { SLUICE_SECRETS_KEY: testSecretsKey }
  await migrate({ ...log, ...events, ...records })
  await keepEveryPart(server.url)

  const service = (...call: Parameters<typeof startRestartable>) => keep(startRestartable(...call), (it) => it.end())
  const key = generateKey('prod')
  const query = await service('query', {
    ...events,
    ...records,
    ...secrets,
    ...store.environment,
    SLUICE_REDIS_URL: redis.url,
    SLUICE_ADMIN_KEY: key,
  })
  const writer = await service('writer', { ...log, ...events, ...records })
  const close = (it: { close(): Promise<unknown> }) => it.close().then(() => undefined)
  const clickHouse = await keep(Promise.resolve(openClickHouse(server.url)), close)
  const postgres = await keep(Promise.resolve(openPostgres(database.url)), close)

  const temporaryFolder = join(folder, 'temporary')
  await mkdir(temporaryFolder)
  const environment = { ...log, ...events, ...records, ...secrets, ...store.environment, TMPDIR: temporaryFolder }
  const worker = await keep(Promise.resolve(oneAtATime(environment)), (it) => it.end())
  const { blobs, folder: blobsFolder } = store
  const { start: startWorker } = worker
  return { key, query, writer, clickHouse, postgres, blobs, blobsFolder, temporaryFolder, startWorker }
}

function oneAtATime(environment: Readonly<Record<string, string>>) {
  let worker: ServiceProcess | undefined
  const kill = () => worker?.signal('SIGKILL')
  // This process may end early, for example by an error.
  process.on('exit', kill)
  return {
    start: async () => (worker = await spawnService('worker', environment)),
    end: async () => {
      process.off('exit', kill)
      kill()
      await worker?.exited
    },
  }
}

interface Blobs {
  blobs: BlobStore
  folder: string | undefined
  environment: Readonly<Record<string, string>>
}

async function startBlobs(keep: Keep, parent: string, place: BlobPlace): Promise<Blobs> {
  const open = (...call: Parameters<typeof openBlobStore>) => keep(openBlobStore(...call), (it) => it.close())
  if (place === 'file') {
    const folder = join(parent, 'blobs')
    const url = `file:${folder}`
    return { blobs: await open(url), folder, environment: { SLUICE_BLOBS_URL: url } }
  }
  const server = await keep(startSeaweedfs({ dir: join(parent, 'seaweedfs') }), (engine) => engine.stop())
  const { endpoint, bucket, credentials } = readBucketUrl(server.url)
  const url = `s3://${bucket}/jobs?${new URLSearchParams({ region: 'us-east-1', endpoint }).toString()}`
  const environment = {
    SLUICE_BLOBS_URL: url,
    SLUICE_S3_ACCESS_KEY_ID: credentials.accessKeyId,
    SLUICE_S3_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  }
  return { blobs: await open(url, { credentials }), folder: undefined, environment }
}
