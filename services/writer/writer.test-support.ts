import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Block } from '@sluice/contracts/block'
import type { EventRow } from '@sluice/contracts/event-row'
import { type ClickHouse, openClickHouse } from '@sluice/clickhouse/client'
import { type EventInserter, eventInserter } from '@sluice/clickhouse/insert-events'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { type TestClickHouse, testClickHouse } from '@sluice/engines/testing'
import type { EventLog } from '@sluice/event-log/log'
import { deadLetterUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { capturedLogger } from '@sluice/runtime/testing'
import { type ConsumeDeps, type EventConsumer, eventConsumer } from './consume-events.ts'
import { listDeadLetters } from './replay-dead-letters/replay.ts'

export const timeoutMs = 10_000
export const noon = Date.UTC(2026, 0, 15, 12)
/** One more than the writer serves at a time. */
export const partitions = Math.max(2, availableParallelism()) + 1

/** A log with its dead letters, and a ClickHouse to write to. */
export interface Place {
  url: string
  log: EventLog
  deadLetters: EventLog
  clickHouse: ClickHouse
  inserter: EventInserter
  /** Rows of the site of this place, by id. */
  stored(): Promise<string[]>
  /** The rows in the log of dead letters, as text, with their reason. */
  dead(): Promise<{ reason: string | undefined; row: string }[]>
  publish(...blocks: Block[]): Promise<void>
  /** Closes the logs, so that another process can open them. */
  closeLogs(): Promise<void>
  drop(): Promise<void>
}

export async function createPlace(logUrl?: string): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-writer-'))
  const url = logUrl ?? `file:${join(folder, 'log')}`
  const { logger } = capturedLogger()
  const log = await openEventLog(url, { logger, file: { partitions } })
  const deadLetters = await openEventLog(deadLetterUrl(url), { logger, file: { partitions: 2 } })
  const database: TestClickHouse = testClickHouse()
  await migrateClickHouse(database.url)
  const clickHouse = openClickHouse(database.url)
  const inserter = eventInserter(clickHouse.address)
  const closeLogs = async (): Promise<void> => {
    await log.close()
    await deadLetters.close()
  }
  return {
    url,
    log,
    deadLetters,
    clickHouse,
    inserter,
    stored: async () => {
      const { rows } = await clickHouse.query<{ id: string }>('SELECT event_id AS id FROM events ORDER BY id')
      return rows.map(({ id }) => id)
    },
    dead: async () => {
      const found: { reason: string | undefined; row: string }[] = []
      await listDeadLetters(deadLetters, ({ headers, payload }) => {
        for (const row of payload.toString().split('\n').slice(0, -1))
          found.push({ reason: headers.letter?.reason, row })
      })
      return found
    },
    publish: (...blocks) => log.publish(blocks, { timeoutMs }),
    closeLogs,
    drop: async () => {
      await closeLogs()
      inserter.close()
      await clickHouse.close()
      await database.drop()
      await rm(folder, { recursive: true })
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

export function runWriter(place: Place, changes: Partial<ConsumeDeps> = {}): RunningWriter {
  const { logger, lines } = capturedLogger()
  const metrics = createMetrics()
  const { log, deadLetters, inserter } = place
  const consumer = eventConsumer({ log, deadLetters, inserter, logger, metrics, lingerMs: 10, ...changes })
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

export function event(id: string = randomUUID(), fields: object = {}): EventRow {
  return {
    site_id: 'site',
    environment: 'prod',
    event_type: 'page_view',
    timestamp: noon,
    event_id: id,
    received_at: noon,
    ...fields,
  }
}

export function blockOfRows(partition: number, rows: readonly (object | string)[]): Block {
  const payload = Buffer.from(rows.map((row) => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join(''))
  return { partition, headers: { v: 1, rows: rows.length, bytes: payload.length }, payload }
}

/** Resolves when `condition` holds; polls. Throws with what it waited for after 20 s. */
export async function eventually(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 20_000
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`Waited 20 s in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
