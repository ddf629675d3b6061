import { availableParallelism } from 'node:os'
import type { Block } from '@sluice/contracts/block'
import { operatorText } from '@sluice/contracts/errors'
import type { EventInserter } from '@sluice/clickhouse/insert-events'
import type { Claim, EventLog, LogBatch, LogConsumer, PartitionLag } from '@sluice/event-log/log'
import type { Logger } from '@sluice/runtime/logger'
import type { Metrics } from '@sluice/runtime/metrics'
import type { Component } from '@sluice/runtime/supervisor'
import { writerMetrics } from './metrics.ts'
import { repeat } from './repeat.ts'
import { storeBatch } from './store-batch.ts'
import { turns } from './turns.ts'

/** 20,000 to 50,000 rows cost ClickHouse the least CPU each (docs/benchmarks.md). */
const batchRowsMax = 50_000
const batchBytesMax = 16 * 1024 * 1024
/** What waits for company this long becomes visible within half a second all the same. */
const lingerMsDefault = 200
/** Nobody waits for it but the partition, and a whole batch may have to go. */
const buryTimeoutMs = 30_000
/** What was under way when a stop came may take so long; a service stops within 10 s. */
const stopGraceMs = 5_000

export interface ConsumeDeps {
  log: EventLog
  /** Takes what can't be stored: the log that `deadLetterUrl` names. */
  deadLetters: Pick<EventLog, 'partitions' | 'publish'>
  inserter: Pick<EventInserter, 'insert' | 'findBadRows'>
  logger: Logger
  metrics: Metrics
  lingerMs?: number
}

export interface EventConsumer extends Component {
  /** Partitions whose batch fails again and again, a line each, for /readyz. */
  warnings: () => readonly string[]
  /** How far the partitions are that this writer holds. */
  lag: () => readonly PartitionLag[]
}

/** Moves the log into ClickHouse: insert, bury what can't be inserted, then commit; partitions side by side. */
export function eventConsumer(deps: ConsumeDeps): EventConsumer {
  const { log, deadLetters, inserter, logger } = deps
  let consumer: LogConsumer | undefined
  const lag = () => consumer?.lag() ?? []
  const metrics = writerMetrics(deps.metrics, lag)
  /** By partition, why its batch is not stored yet. */
  const stuck = new Map<number, string>()
  // One is enough to keep a core of ClickHouse busy, but one that hangs must not be all there is.
  const inTurn = turns(Math.max(2, availableParallelism()))

  function noteRetry(partition: number, error: Error): void {
    metrics.retries.inc()
    stuck.set(partition, operatorText(error))
  }

  /** Publishes dead letters until they are durable. */
  async function bury(dead: readonly Block[], partition: number, signal: AbortSignal): Promise<void> {
    if (dead.length === 0) return
    await repeat(
      async () => {
        const count = await deadLetters.partitions()
        const placed = dead.map((block) => ({ ...block, partition: partition % count }))
        await deadLetters.publish(placed, { timeoutMs: buryTimeoutMs })
      },
      {
        signal,
        onFailure: (error, attempt) => {
          noteRetry(partition, error)
          logger.warn({ err: error, partition, attempt }, 'dead letters are not durable yet, they are published again')
        },
      },
    )
    for (const { headers } of dead) {
      if (headers.letter) metrics.deadLetters.inc({ reason: headers.letter.reason }, Math.max(1, headers.rows))
    }
    const [first] = dead
    logger.error({ partition, letters: dead.length, first: first?.headers.letter }, 'rows could not be stored')
  }

  async function consumeBatch(claim: Claim, batch: LogBatch, how: Parameters<typeof storeBatch>[1], logId: string) {
    const { partition } = batch
    const started = performance.now()
    const { inserted, dead } = await storeBatch(batch, how, {
      inserter,
      inTurn,
      logId,
      logger,
      onRetry: (error) => {
        noteRetry(partition, error)
      },
    })
    await bury(dead, partition, how.signal)
    // After both: a crash in between repeats the batch, which stores nothing twice.
    await claim.commit(batch)

    const durationMs = performance.now() - started
    metrics.rows.inc(batch.rows)
    metrics.inserted.inc(inserted)
    metrics.seconds.observe(durationMs / 1000)
    metrics.batchRows.observe(batch.rows)
    logger.info(
      {
        partition,
        first_offset: String(batch.firstOffset),
        next_offset: String(batch.nextOffset),
        blocks: batch.blocks.length,
        rows: batch.rows,
        inserted,
        dead_letters: dead.length,
        bytes: batch.bytes,
        duration_ms: Math.round(durationMs),
        age_ms: Date.now() - batch.oldestAppendedAt,
      },
      'batch',
    )
  }

  async function consumeClaim(claim: Claim, logId: string, stop: { asked: AbortSignal; late: AbortSignal }) {
    /** No further attempt. */
    const signal = AbortSignal.any([claim.lost, stop.asked])
    /** No waiting for the present one: if it is an insert, the claim after this ends it. */
    const cut = AbortSignal.any([claim.lost, stop.late])
    let firstOfClaim = true
    for await (const batch of claim.batches()) {
      // What is not stored yet is read again after the stop, or by the member that has the partition now.
      if (signal.aborted) continue
      await orAborted(consumeBatch(claim, batch, { firstOfClaim, signal }, logId), cut)
        .catch((error: unknown) => {
          if (!signal.aborted) throw error
        })
        .finally(() => stuck.delete(batch.partition))
      firstOfClaim = false
    }
  }

  return {
    name: 'event consumer',
    lag,
    warnings: () => [...stuck].map(([partition, reason]) => `partition ${partition} waits: ${reason}`),
    run: async (stopping) => {
      const logId = await log.id()
      const late = new AbortController()
      const member = log.consumer({
        // All writers of one log are one group: each partition has one of them. Another log on the same Kafka, another
        // group: members that join or die there must not stop the work here.
        group: `sluice-writer-${logId}`,
        maxBatchBytes: batchBytesMax,
        maxBatchRows: batchRowsMax,
        lingerMs: deps.lingerMs ?? lingerMsDefault,
        onClaim: (claim) => consumeClaim(claim, logId, { asked: stopping, late: late.signal }),
      })
      consumer = member
      const stop = (): void => {
        setTimeout(() => {
          late.abort(new Error('the writer stops'))
        }, stopGraceMs).unref()
        void member.stop()
      }
      stopping.addEventListener('abort', stop)
      try {
        if (!stopping.aborted) await member.run()
      } finally {
        stopping.removeEventListener('abort', stop)
        await member.stop()
      }
    },
  }
}

/** Settles as `work` does, or rejects with the signal's reason when that comes first; nobody hears of the work then. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => {
    aborted.reject(signal.reason as Error)
  }
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
