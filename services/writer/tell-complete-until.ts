import { SluiceError, unavailable } from '@sluice/contracts/errors'
import type { EventLog, PartitionLag } from '@sluice/event-log/log'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { withDeadline } from '@sluice/runtime/deadline'
import type { Logger } from '@sluice/runtime/logger'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { type Component, pause } from '@sluice/runtime/supervisor'
import { watermark } from './watermark.ts'

const defaultIntervalMs = 1_000
/** A Postgres that hangs must not hold up a stop. */
const storeTimeoutMs = 2_000

export interface TellDeps {
  log: Pick<EventLog, 'id' | 'ends'>
  /** Of the partitions that this writer holds. */
  lag: () => readonly PartitionLag[]
  store: Pick<WatermarkStore, 'advance'>
  logger: Logger
  metrics: Metrics
  intervalMs?: number
}

/**
 * Tells Postgres once a second until when everything is readable in the partitions that this writer holds. Beside the
 * inserts: while Postgres is away they go on, and what was told before stands.
 */
export function completeUntilTeller({
  log,
  lag,
  store,
  logger,
  metrics,
  intervalMs = defaultIntervalMs,
}: TellDeps): Component {
  const rule = watermark()
  /** By partition, what Postgres was told last. */
  let told: readonly (number | undefined)[] = []
  new Gauge({
    name: 'sluice_writer_complete_until_age_seconds',
    help: 'Time since the moment until which everything accepted is readable.',
    labelNames: ['partition'],
    registers: [metrics],
    // At the scrape, as the freshness: what stands must look older each time.
    collect() {
      this.reset()
      for (const { partition } of lag()) {
        const until = told[partition]
        if (until !== undefined) this.set({ partition: String(partition) }, (Date.now() - until) / 1000)
      }
    },
  })

  async function tell(): Promise<void> {
    const logId = await log.id()
    // Before the question: its answer may take long.
    const askedAt = Date.now()
    const ends = await log.ends()
    const committed = new Map(lag().map((each) => [each.partition, each.committed]))
    const until = rule({ askedAt, ends, committed })
    await withDeadline(store.advance(logId, until), storeTimeoutMs, () => unavailable('Postgres is slow'))
    told = until.map((each, partition) => each ?? told[partition])
  }

  return {
    name: 'complete until',
    run: async (signal) => {
      let stands = false
      while (!signal.aborted) {
        try {
          await tell()
          stands = false
        } catch (error) {
          if (!(error instanceof SluiceError && error.retryable)) throw error
          if (!stands) logger.warn({ err: error }, 'complete_until can not be told, it stands')
          stands = true
        }
        await pause(intervalMs, signal)
      }
    },
  }
}
