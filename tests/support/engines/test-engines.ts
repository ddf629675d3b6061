// Databases, topics and prefixes for one test file, on the engines that start.ts started or that the environment names.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe } from '@jest/globals'
import { Client } from 'pg'
import { waitUntil } from '@sluice/runtime/wait-until'
import { kafkaAnswers } from './kafka-probe.ts'
import { createBucket, readBucketUrl } from './s3-bucket.ts'
import {
  copyClickHouseDatabase,
  createPostgresDatabase,
  newClickHouseDatabase,
  type TestDatabase,
  withDatabase,
} from './test-databases.ts'

export interface TestClickHouse extends TestDatabase {
  /**
   * The same database as a user who may only read it. `url` for an external ClickHouse without
   * SLUICE_TEST_CLICKHOUSE_READER_URL.
   */
  readerUrl: string
  /** Creates the database as `migrateClickHouse` does, with a store of its own. */
  create(): Promise<unknown>
}

/** A ClickHouse database name that was never used. The database does not exist before `create` or a migration. */
export function testClickHouse(): TestClickHouse {
  const database = newClickHouseDatabase(engineUrl('SLUICE_TEST_CLICKHOUSE_URL'))
  const { url } = database
  const readerUrl = process.env.SLUICE_TEST_CLICKHOUSE_READER_URL
  return {
    ...database,
    readerUrl: readerUrl === undefined ? url : withDatabase(readerUrl, new URL(url).pathname.slice(1)),
    create: () => copyClickHouseDatabase(engineUrl('SLUICE_TEST_CLICKHOUSE_TEMPLATE_URL'), url),
  }
}

/** A new Postgres database, empty unless it is `migrated`, as `migratePostgres` does. */
export async function testPostgres({ migrated = false } = {}): Promise<TestDatabase> {
  return createPostgresDatabase(
    engineUrl('SLUICE_TEST_POSTGRES_URL'),
    migrated ? engineUrl('SLUICE_TEST_POSTGRES_TEMPLATE_URL') : undefined,
  )
}

/**
 * The URL of a topic that was never used and does not exist yet, `kafka://host:port/test.<random>`; undefined when this
 * run has no Kafka. Suites that need a topic use describeWithKafka, which waits until Kafka answers.
 */
export function testKafka(): { url: string } | undefined {
  const url = process.env.SLUICE_TEST_KAFKA_URL
  return url === undefined
    ? undefined
    : { url: `${new URL(url).protocol}//${new URL(url).host}/test.${randomBytes(6).toString('hex')}` }
}

/** `describe` for suites that need Kafka; they are skipped, and named so, when there is none. */
export function describeWithKafka(name: string, suite: () => void): void {
  const url = process.env.SLUICE_TEST_KAFKA_URL
  if (url === undefined) {
    describe.skip(`${name} (no Kafka)`, suite)
    return
  }
  describe(name, () => {
    beforeAll(async () => {
      await waitForKafka(url)
    })
    suite()
  })
}

/** Waits for Kafka, which starts while the first tests run. Throws after two minutes. */
async function waitForKafka(url: string): Promise<void> {
  const { hostname, port } = new URL(url)
  await waitUntil(() => kafkaAnswers(hostname, Number(port)), `Kafka at ${hostname}:${port} answers`)
}

/**
 * The URL of a Redis with a prefix of keys that was never used; undefined when this run has no Redis. Suites that need
 * one are made by describeWithRedis.
 */
export function testRedis(): { url: string } | undefined {
  const url = process.env.SLUICE_TEST_REDIS_URL
  if (url === undefined) return undefined
  const own = new URL(url)
  own.searchParams.set('prefix', `test.${randomBytes(6).toString('hex')}:`)
  return { url: own.href }
}

/** `describe` for suites that need Redis: counted as skipped, and named so, when there is none. */
export function describeWithRedis(name: string, suite: () => void): void {
  if (testRedis() === undefined) describe.skip(`${name} (no Redis)`, suite)
  else describe(name, suite)
}

/** A store of blobs on an S3 server, and the credentials for it. */
export interface TestS3 {
  /** `s3://<bucket>/test.<random>?…`: a prefix that was never used. */
  url: string
  credentials: { accessKeyId: string; secretAccessKey: string }
}

/**
 * A prefix of its own in the bucket of this run's S3 server, SLUICE_TEST_S3_URL by default. Throws when there is none.
 */
export function testS3(serverUrl = process.env.SLUICE_TEST_S3_URL): TestS3 {
  if (serverUrl === undefined) throw new Error('This run has no S3 server: make suites by describeWithS3')
  const { endpoint, bucket, credentials } = readBucketUrl(serverUrl)
  const query = new URLSearchParams({ region: 'us-east-1', endpoint })
  return { url: `s3://${bucket}/test.${randomBytes(6).toString('hex')}?${query.toString()}`, credentials }
}

/** `describe` for suites that need an S3 server: counted as skipped, and named so, when there is none. */
export function describeWithS3(name: string, suite: () => void): void {
  const url = process.env.SLUICE_TEST_S3_URL
  if (url === undefined) {
    describe.skip(`${name} (no S3)`, suite)
    return
  }
  describe(name, () => {
    beforeAll(async () => {
      await waitUntil(() => createBucket(url), `S3 at ${new URL(url).host} stores blobs`)
    })
    suite()
  })
}

/**
 * `describe` for suites that run services as production does: skipped, and named so, without Kafka or without Redis.
 */
export function describeWithServices(name: string, suite: () => void): void {
  describeWithKafka(name, () => describeWithRedis('with Redis', suite))
}

/**
 * Called at the top of a test file that runs whole installations under load. Such files run one after the other: on two
 * cores, the processes of two installations at the same time would exceed their time limits.
 */
export function runOneAtATime(): void {
  // An advisory lock of the shared Postgres, which ends with the connection of a killed process.
  const lock = new Client({ connectionString: engineUrl('SLUICE_TEST_POSTGRES_URL') })

  beforeAll(async () => {
    await lock.connect()
    await lock.query("SELECT pg_advisory_lock(hashtext('sluice tests: whole installations'))")
  }, 3_600_000)

  afterAll(async () => {
    await lock.end()
  })
}

function engineUrl(variable: `SLUICE_TEST_${'CLICKHOUSE' | 'POSTGRES'}_${'' | 'TEMPLATE_'}URL`): string {
  const url = process.env[variable]
  if (url === undefined)
    throw new Error(`${variable} is not set: run the tests by \`npm test\`, which starts the engines`)
  return url
}
