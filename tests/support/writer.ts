import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listDeadLetters } from '@sluice/admin/replay-dead-letters/replay'
import type { EventRow } from '@sluice/contracts/event-columns'
import type { Block } from '@sluice/event-log/block'
import type { EventLog } from '@sluice/event-log/log'
import { openBackfillLog, openDeadLetters, openEventLog } from '@sluice/event-log/open-event-log'
import { writerGroup } from '@sluice/event-log/writer-group'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { type EventInserter, openEventInserter, openEventInserterAt } from '@sluice/event-store/insert/event-inserter'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { type ConsumeDeps, type EventConsumer, eventConsumer } from '@sluice/writer/consume-events'
import { backfillPolicy, type LanePolicy, livePolicy } from '@sluice/writer/lane-policy'
import { liveTraffic } from '@sluice/writer/live-traffic'
import { capturedLogger } from './captured-logger.ts'
import { type ClickHouseProxy, clickHouseProxy } from './clickhouse-proxy.ts'
import { exactClock } from './clock.ts'
import { type TestClickHouse, testClickHouse } from './engines/test-engines.ts'

export const timeoutMs = 10_000
const noon = Date.UTC(2026, 0, 15, 12)
/** Concurrent inserts of a writer in tests. */
const insertsMaxDefault = 2
/** One more than the writer serves at a time. */
export const partitions = insertsMaxDefault + 1

/** The stores of a writer: a log with its dead letters, and a ClickHouse to write to. */
export interface TestStores {
  url: string
  clickHouseUrl: string
  log: EventLog
  backfill: EventLog
  deadLetters: EventLog
  clickHouse: ClickHouse
  inserter: EventInserter
  /** Ids of all stored events, sorted. */
  stored(): Promise<string[]>
  /**
   * The rows in the log of dead letters, as text, with their reason, and with their lane when it is that of old rows.
   */
  dead(): Promise<{ reason: string | undefined; row: string; lane?: string }[]>
  publish(...blocks: Block[]): Promise<void>
  /** Whether the writers have taken everything out of the log of events and the backfill log. */
  isDrained(): Promise<boolean>
  /** Closes the logs, so that another process can open them. */
  closeLogs(): Promise<void>
  drop(): Promise<void>
}

export async function createTestStores(
  logUrl?: string,
  partitionCount = partitions,
  database: TestClickHouse = testClickHouse(),
): Promise<TestStores> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-writer-'))
  const url = logUrl ?? `file:${join(folder, 'log')}`
  const { logger } = capturedLogger()
  const log = await openEventLog(url, { logger, file: { partitions: partitionCount } })
  const backfill = await openBackfillLog(url, log, { logger })
  const deadLetters = await openDeadLetters(url, { logger })
  await database.create()
  const clickHouse = openClickHouse(database.url)
  const inserter = openEventInserterAt(clickHouse.address)
  const closeLogs = async (): Promise<void> => {
    await log.close()
    await backfill.close()
    await deadLetters.close()
  }
  return {
    url,
    clickHouseUrl: database.url,
    log,
    backfill,
    deadLetters,
    clickHouse,
    inserter,
    stored: async () => {
      const { rows } = await clickHouse.query<{ id: string }>('SELECT event_id AS id FROM events ORDER BY id')
      return rows.map(({ id }) => id)
    },
    dead: async () => {
      const found: Awaited<ReturnType<TestStores['dead']>> = []
      await listDeadLetters({ deadLetters }, ({ headers, payload }) => {
        const { reason, lane } = headers.letter ?? { reason: undefined }
        for (const row of payload.toString().split('\n').slice(0, -1))
          found.push({ reason, row, ...(lane && { lane }) })
      })
      return found
    },
    publish: (...blocks) => log.publish(blocks, { timeoutMs }),
    isDrained: async () => {
      const group = writerGroup(await inserter.storeId())
      const positions = [...(await log.committedOffsets(group)), ...(await backfill.committedOffsets(group))]
      return positions.every(({ offset, endOffset }) => offset === endOffset)
    },
    closeLogs,
    drop: async () => {
      await closeLogs()
      await inserter.close()
      await clickHouse.close()
      await database.drop()
      await rm(folder, { recursive: true })
    },
  }
}

/** Stores in which a test can act on inserts under way and see every row that was stored twice. */
export interface ProxiedStores extends TestStores {
  proxy: ClickHouseProxy
  /** An inserter whose inserts pass through `proxy`. */
  proxied: EventInserter
}

export async function createProxiedStores(partitionCount = partitions): Promise<ProxiedStores> {
  const stores = await createTestStores(undefined, partitionCount)
  // A merge would hide rows that were stored twice.
  await stores.clickHouse.command('SYSTEM STOP MERGES events')
  const proxy = await clickHouseProxy(stores.clickHouseUrl)
  const proxied = openEventInserter(proxy.url)
  return {
    ...stores,
    proxy,
    proxied,
    drop: async () => {
      await proxied.close()
      await proxy.close()
      await stores.drop()
    },
  }
}

/** A writer under way; `stop` resolves when it has stopped. */
export interface RunningWriter {
  consumer: EventConsumer
  metrics: Metrics
  /** A figure at a scrape now. */
  figure(name: string, labels?: Record<string, string>): Promise<number | undefined>
  lines: () => Record<string, unknown>[]
  stop(): Promise<void>
}

/** What differs from the writer of `place`. */
export type WriterChanges = Partial<Omit<ConsumeDeps, 'logs'>>

/** A consumer of old rows. By default live rows arrive while the live log grows. */
export function runOldWriter(
  place: TestStores,
  {
    isLive = liveTraffic(place.log, () => []),
    clock = exactClock,
    ...changes
  }: WriterChanges & { isLive?: () => Promise<boolean> } = {},
): RunningWriter {
  return startWriter(backfillPolicy(isLive, clock), place, { clock, ...changes })
}

export function runWriter(
  place: TestStores,
  { insertsMax = insertsMaxDefault, ...changes }: WriterChanges & { insertsMax?: number } = {},
): RunningWriter {
  return startWriter(livePolicy({ insertsMax, lingerMs: 10 }), place, changes)
}

function startWriter(policy: LanePolicy, place: TestStores, changes: WriterChanges): RunningWriter {
  const { logger, lines } = capturedLogger()
  const metrics = createMetrics()
  const { log, backfill, deadLetters, inserter } = place
  const engines = { logs: { live: log, backfill }, deadLetters, inserter }
  const deps: ConsumeDeps = { ...engines, logger, metrics, clock: exactClock, ...changes }
  const consumer = eventConsumer(policy, deps)
  const abort = new AbortController()
  const running = consumer.run?.(abort.signal)
  return {
    consumer,
    metrics,
    lines,
    figure: async (name, labels = {}) => {
      const { values } = (await metrics.getSingleMetric(name)?.get()) ?? { values: [] }
      const wanted = Object.entries(labels)
      return values.find(({ labels: has }) => wanted.every(([key, value]) => has[key] === value))?.value
    },
    stop: async () => {
      abort.abort()
      await running
    },
  }
}

/** A replay of dead letters leaves out what was received long ago. */
const startedAt = Date.now()

export function event(id: string = randomUUID(), fields: object = {}): EventRow {
  return {
    site_id: 'site',
    environment: 'prod',
    event_type: 'page_view',
    timestamp: noon,
    event_id: id,
    received_at: startedAt,
    ...fields,
  }
}

export function blockOfRows(partition: number, rows: readonly (object | string)[]): Block {
  const payload = Buffer.from(rows.map((row) => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join(''))
  return { partition, headers: { v: 1, rows: rows.length, bytes: payload.length }, payload }
}
