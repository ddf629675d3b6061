import { availableParallelism } from 'node:os'
import type { EventInserter } from '@sluice/clickhouse/insert-events'
import type { Claim, EventLog, LogConsumer } from '@sluice/event-log/log'
import type { Logger } from '@sluice/runtime/logger'
import { Counter, Gauge, Histogram, type Metrics } from '@sluice/runtime/metrics'
import type { Component } from '@sluice/runtime/supervisor'
import pLimit from 'p-limit'
import { storeBatch } from './store-batch.ts'

/** 20,000 to 50,000 rows cost ClickHouse the least CPU each (docs/benchmarks.md). */
const batchRowsMax = 50_000
const batchBytesMax = 16 * 1024 * 1024
/** What waits for company this long becomes visible within half a second all the same. */
const lingerMs = 200

export interface ConsumeDeps {
  log: EventLog
  inserter: Pick<EventInserter, 'insert'>
  logger: Logger
  metrics: Metrics
}

/** Moves the log into ClickHouse: insert, then commit, batch by batch, partitions side by side. */
export function eventConsumer({ log, inserter, logger, metrics }: ConsumeDeps): Component {
  const rows = new Counter({ name: 'sluice_writer_rows_total', help: 'Rows read from the log.', registers: [metrics] })
  const inserted = new Counter({
    name: 'sluice_writer_rows_inserted_total',
    help: 'Rows that were new.',
    registers: [metrics],
  })
  const retries = new Counter({
    name: 'sluice_writer_insert_retries_total',
    help: 'Inserts that failed and were repeated.',
    registers: [metrics],
  })
  const seconds = new Histogram({
    name: 'sluice_writer_insert_seconds',
    help: 'Time to store a batch.',
    registers: [metrics],
  })
  const freshness = new Gauge({
    name: 'sluice_writer_freshness_seconds',
    help: 'Age of the oldest row of the last stored batch.',
    registers: [metrics],
  })
  let consumer: LogConsumer | undefined
  new Gauge({
    name: 'sluice_writer_lag_blocks',
    help: 'Blocks that are in the log and not committed yet.',
    labelNames: ['partition'],
    registers: [metrics],
    collect() {
      this.reset()
      for (const { partition, blocks } of consumer?.lag() ?? []) this.set({ partition: String(partition) }, blocks)
    },
  })
  const slots = pLimit(availableParallelism())

  async function consumeClaim(claim: Claim, logId: string): Promise<void> {
    let firstOfClaim = true
    for await (const batch of claim.batches()) {
      const started = performance.now()
      const newRows = await slots(() =>
        storeBatch(
          batch,
          { claim, firstOfClaim },
          {
            inserter,
            logId,
            logger,
            onRetry: () => {
              retries.inc()
            },
          },
        ),
      )
      firstOfClaim = false
      // After the insert: a crash in between repeats the batch, which stores nothing twice.
      await claim.commit(batch)

      const durationMs = performance.now() - started
      const ageMs = Date.now() - batch.oldestAppendedAt
      rows.inc(batch.rows)
      inserted.inc(newRows)
      seconds.observe(durationMs / 1000)
      freshness.set(ageMs / 1000)
      logger.info(
        {
          partition: batch.partition,
          first_offset: String(batch.firstOffset),
          next_offset: String(batch.nextOffset),
          blocks: batch.blocks.length,
          rows: batch.rows,
          inserted: newRows,
          bytes: batch.bytes,
          duration_ms: Math.round(durationMs),
          age_ms: ageMs,
        },
        'batch',
      )
    }
  }

  return {
    name: 'event consumer',
    run: async (signal) => {
      const logId = await log.id()
      const member = log.consumer({
        // All writers of one log are one group: each partition has one of them. Another log on the same Kafka, another
        // group: members that join or die there must not stop the work here.
        group: `sluice-writer-${logId}`,
        maxBatchBytes: batchBytesMax,
        maxBatchRows: batchRowsMax,
        lingerMs,
        onClaim: async (claim) => {
          try {
            await consumeClaim(claim, logId)
          } catch (error) {
            // The partition is another member's now, and so is the batch.
            if (!claim.lost.aborted) throw error
          }
        },
      })
      consumer = member
      const stop = (): void => {
        void member.stop()
      }
      signal.addEventListener('abort', stop)
      try {
        if (!signal.aborted) await member.run()
      } finally {
        signal.removeEventListener('abort', stop)
        await member.stop()
      }
    },
  }
}
