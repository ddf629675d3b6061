import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { createPublisher, createPublishState, type Publisher } from '@sluice/gateway/publish/publisher'
import { createMetrics } from '@sluice/runtime/metrics'
import { retry } from '@sluice/runtime/retry'
import { exactClock } from '../tests/support/clock.ts'
import { startKafka } from '../tests/support/engines/kafka.ts'
import { median, rounded } from './report.ts'
import { benchRow, thousandSites } from './writer-rows.ts'

type EncodedEvent = Parameters<Publisher['publish']>[0][number]

const partitionCounts = [8, 32, 100]
const rounds = Number(process.env.BENCH_ROUNDS ?? 3)
const secondsEach = Number(process.env.BENCH_SECONDS ?? 5)
const batchEvents = 500
const clients = 32
const batchesPrepared = 200

/** Encoded batches of events with ids, which spread over all partitions. */
function prepareBatches(): EncodedEvent[][] {
  return Array.from({ length: batchesPrepared }, (_, batch) =>
    Array.from({ length: batchEvents }, (_, index) => {
      const row = benchRow(batch * batchEvents + index, thousandSites)
      const keyHash = createHash('md5').update(row.event_id).digest().readUInt32LE()
      return {
        line: `${JSON.stringify(row)}\n`,
        timestamp: row.timestamp,
        keyHash,
        undated: false,
        siteId: row.site_id,
      }
    }),
  )
}

/**
 * What many partitions cost the gateway: events per second that a publisher makes durable in Kafka from batches of 500,
 * with 8, 32 and 100 partitions in turns. The broker and the publisher share the machine.
 */
export async function publishPartitions(): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const kafka = await startKafka({ dir: join(folder, 'kafka'), isOptimised: true })
  const batches = prepareBatches()
  const ignore = (): void => undefined
  const logger = { debug: ignore, info: ignore, warn: ignore, error: console.error }
  const measured = new Map<number, number[]>(partitionCounts.map((count) => [count, []]))
  try {
    // A busy broker may need longer for the leaders of new partitions than a migration waits.
    for (const count of partitionCounts) {
      const create = (): Promise<string[]> => ensureTopics(urlOf(kafka.brokers, count), { partitions: count })
      await retry(create, { timeoutMs: 60_000 })
    }
    for (let round = 0; round < rounds; round++) {
      for (const [count, rates] of measured) {
        const url = urlOf(kafka.brokers, count)
        const log = await openEventLog(url, { logger })
        // A publish waits for two seconds only, and a busy broker may need more to know a new topic.
        await retry(() => log.partitions(), { timeoutMs: 30_000 })
        rates.push(await publishFor(createPublisher(log, createPublishState(createMetrics()), exactClock), batches))
        await log.close()
      }
    }
  } finally {
    await kafka.stop()
    await rm(folder, { recursive: true, force: true })
  }
  const eventsPerSecond = Object.fromEntries([...measured].map(([count, rates]) => [count, Math.round(median(rates))]))
  return {
    bar: 0.8,
    ratio: rounded((eventsPerSecond[100] ?? 0) / (eventsPerSecond[8] ?? 1)),
    eventsPerSecond,
    rounds: Object.fromEntries([...measured].map(([count, rates]) => [count, rates.map(Math.round)])),
  }
}

const urlOf = (brokers: string, partitions: number): string => `kafka://${brokers}/bench.partitions-${partitions}`

async function publishFor(publisher: Publisher, batches: readonly EncodedEvent[][]): Promise<number> {
  const publish = async (until: number, offset: number): Promise<number> => {
    let published = 0
    for (let n = offset; performance.now() < until; n += clients) {
      // Refused batches do not count: the rates are those of durable events.
      const isDurable = await publisher.publish(batches[n % batches.length] ?? [], Date.now()).then(
        () => true,
        () => false,
      )
      if (isDurable) published += batchEvents
    }
    return published
  }
  const run = async (seconds: number): Promise<number> => {
    const until = performance.now() + seconds * 1000
    const counts = await Promise.all(Array.from({ length: clients }, (_, client) => publish(until, client)))
    return counts.reduce((sum, count) => sum + count, 0)
  }
  await run(1)
  const started = performance.now()
  const published = await run(secondsEach)
  return (published * 1000) / (performance.now() - started)
}
