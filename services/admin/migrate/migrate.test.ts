import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import type { EventLog } from '@sluice/event-log/log'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { formerWriterGroup, writerGroup } from '@sluice/event-log/writer-group'
import { openEventInserter } from '@sluice/event-store/insert/insert-events'
import { openPostgres } from '@sluice/postgres/open'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import {
  describeWithKafka,
  type TestClickHouse,
  testClickHouse,
  type TestDatabase,
  testKafka,
  testPostgres,
} from '../../../tests/support/engines/test-engines.ts'
import { blockOfRows, event, timeoutMs } from '../../../tests/support/writer.ts'
import { migrate } from './migrate.ts'

let folder: string
let postgresDatabase: TestDatabase
let stores: TestClickHouse[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-migrate-'))
  postgresDatabase = await testPostgres()
  stores = [testClickHouse(), testClickHouse()]
})

afterEach(async () => {
  await postgresDatabase.drop()
  for (const store of stores) await store.drop()
  await rm(folder, { recursive: true })
})

async function migrateStore(logUrl: string, clickHouseUrl: string): Promise<string> {
  const postgres = openPostgres(postgresDatabase.url)
  const inserter = openEventInserter(clickHouseUrl)
  try {
    await migrate({ postgres, clickHouseUrl, logUrl })
    return writerGroup(await inserter.storeId())
  } finally {
    await postgres.close()
    await inserter.close()
  }
}

/** Consumes as `group` until it has committed `count` blocks. */
async function consume(log: EventLog, group: string, count: number): Promise<void> {
  let committed = 0
  const consumer = log.consumer({
    group,
    maxBatchBytes: 1,
    maxBatchRows: 1,
    lingerMs: 0,
    onClaim: async (claim) => {
      for await (const batch of claim.batches()) {
        if (committed === count) continue
        committed++
        await claim.commit(batch)
        if (committed === count) void consumer.stop()
      }
    },
  })
  await consumer.run()
}

function describeTakeover(name: string, createUrl: () => Promise<string>): void {
  test(`writers continue where those of an earlier build stopped: ${name}`, async () => {
    const url = await createUrl()
    const { logger } = capturedLogger()
    const open = (): Promise<EventLog> => openEventLog(url, { logger, file: { partitions: 2 } })
    const before = await open()
    await before.publish(
      [1, 1, 1, 0].map((partition) => blockOfRows(partition, [event()])),
      { timeoutMs },
    )
    await consume(before, formerWriterGroup(await before.id()), 3)
    const left = (await before.positions(formerWriterGroup(await before.id()))).map(({ next }) => next)
    expect(left.reduce((sum, next) => sum + next, 0n)).toBe(3n)
    await before.close()

    const groups = [await migrateStore(url, stores[0]?.url ?? ''), await migrateStore(url, stores[0]?.url ?? '')]
    expect(groups[0]).toBe(groups[1])
    const after = await open()
    expect((await after.positions(groups[0] ?? '')).map(({ next }) => next)).toStrictEqual(left)
    await consume(after, groups[0] ?? '', 1)
    await after.close()

    // A later migration leaves the positions of a group that has read on.
    const group = await migrateStore(url, stores[0]?.url ?? '')
    const last = await open()
    expect((await last.positions(group)).map(({ next, end }) => end - next)).toStrictEqual([0n, 0n])
    await last.close()
  })
}

describe('with a file', () => {
  describeTakeover('SQLite', () => Promise.resolve(`file:${folder}/log`))
})

describeWithKafka('with Kafka', () => {
  describeTakeover('Kafka', async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions: 2 })
    return url
  })
})
