import type { Lane } from '@sluice/contracts/lanes'
import { deadLetterReasons } from '@sluice/event-log/block'
import type { EventLog, PartitionLag } from '@sluice/event-log/log'
import { beginAtZero, Counter, Gauge, Histogram, type Metrics, scrapeReader } from '@sluice/runtime/metrics'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

/** The prefix of a lane's metrics. */
export const metricPrefix = { live: 'sluice_writer', backfill: 'sluice_writer_backfill' } as const satisfies Record<
  Lane,
  string
>

/**
 * The writer's metrics of a lane; docs/operations.md says which to watch. `lag` and the ends of the log are read at
 * each scrape.
 */
export function writerMetrics(
  metrics: Metrics,
  lane: Lane,
  {
    log,
    lag,
    clock,
  }: {
    log: Pick<EventLog, 'endOffsets'>
    lag: () => readonly PartitionLag[]
    clock: Pick<SynchronizedClock, 'now'>
  },
) {
  const registers = [metrics]
  const prefix = metricPrefix[lane]
  const readEnds = scrapeReader(() => log.endOffsets())
  new Gauge({
    name: `${prefix}_lag_blocks`,
    help: 'Blocks that are in the log and not committed yet.',
    labelNames: ['partition'],
    registers,
    // The ends are requested: a writer that holds as many blocks as it may fetches no more, and does not see that the
    // log grows.
    async collect() {
      const ends = await readEnds()
      this.reset()
      for (const { partition, committed, blocks } of lag()) {
        const end = ends?.[partition] ?? committed
        this.set({ partition: String(partition) }, Math.max(blocks, Number(end - committed)))
      }
    },
  })
  new Gauge({
    name: `${prefix}_freshness_seconds`,
    help: 'Age of the oldest event that is in the log and not stored yet; 0 when all are.',
    labelNames: ['partition'],
    registers,
    // Computed at each scrape, so that the age grows while a writer is stalled.
    collect() {
      this.reset()
      for (const { partition, blocks, oldestAppendedAt } of lag()) {
        const label = { partition: String(partition) }
        if (blocks === 0) this.set(label, 0)
        else if (oldestAppendedAt !== undefined) this.set(label, Math.max(0, clock.now() - oldestAppendedAt) / 1000)
      }
    },
  })
  const deadLetters = new Counter({
    name: `${prefix}_dead_letters_total`,
    help: 'Rows that could not be stored and went to the log of dead letters.',
    labelNames: ['reason'],
    registers,
  })
  beginAtZero(deadLetters, { reason: deadLetterReasons })
  const insertSeconds = new Histogram({
    name: `${prefix}_insert_seconds`,
    help: 'Time of a statement that stored rows: dated ones, or with some that have no timestamp of their own (undated).',
    labelNames: ['kind'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
    registers,
  })
  beginAtZero(insertSeconds, { kind: ['dated', 'undated'] })
  return {
    deadLetters,
    rows: new Counter({ name: `${prefix}_rows_total`, help: 'Rows read from the log.', registers }),
    inserted: new Counter({
      name: `${prefix}_rows_inserted_total`,
      help: 'Rows that were inserted because they were not stored before.',
      registers,
    }),
    retries: new Counter({
      name: `${prefix}_retries_total`,
      help: 'Attempts to store a batch or its dead letters that failed and were repeated.',
      registers,
    }),
    insertSeconds,
    seconds: new Histogram({
      name: `${prefix}_batch_seconds`,
      help: 'Time to store a batch, with all its attempts and the commit.',
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
      registers,
    }),
    batchRows: new Histogram({
      name: `${prefix}_batch_rows`,
      help: 'Rows of a batch: below some thousands under load, inserts cost more than they need to.',
      buckets: [10, 100, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000],
      registers,
    }),
  }
}

/** The metrics that the writer changes. Those of its lag are computed at each scrape. */
export type WriterMetrics = ReturnType<typeof writerMetrics>
