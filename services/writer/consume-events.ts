import { availableParallelism } from 'node:os'
import type { Lane } from '@sluice/contracts/lanes'
import type { Block } from '@sluice/event-log/block'
import type { ReadBudget } from '@sluice/event-log/consumer/read-budget'
import type { Claim, EventLog, LogBatch, LogConsumer, PartitionLag } from '@sluice/event-log/log'
import { unevenPartitionsText } from '@sluice/event-log/require-whole-partitions'
import { writerGroup } from '@sluice/event-log/writer-group'
import type { EventInserter } from '@sluice/event-store/insert/insert-events'
import { internalMessage } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import type { Metrics } from '@sluice/runtime/metrics'
import { retry } from '@sluice/runtime/retry'
import { type Component, FatalError } from '@sluice/runtime/supervisor'
import { causesMax, causesOf, isTracing, type SpanContext, traced, tracedCall } from '@sluice/runtime/tracing'
import { backfillPace } from './backfill-pace.ts'
import { type InsertSlot, insertSlots } from './insert-slots.ts'
import { liveTraffic } from './live-traffic.ts'
import { writerMetrics } from './metrics.ts'
import { storeBatch } from './store-batch.ts'

/** 20,000 to 50,000 rows cost ClickHouse the least CPU each (docs/benchmarks.md). */
const batchRowsMax = 50_000
const batchBytesMax = 16 * 1024 * 1024
/** Wait for further blocks; a shorter one makes more inserts, for which events then wait (docs/decisions/022-small-inserts.md). */
const lingerMsDefault = 100
/** A batch of old rows may become one statement, and each month in it costs as much as thousands of rows. */
const oldBatchRowsMax = 200_000
const oldBatchBytesMax = 32 * 1024 * 1024
/** Only the partition waits for this publish, which may hold a whole batch. */
const deadLetterTimeoutMs = 30_000
/**
 * Time for a running insert to finish after a stop: a standalone has 3 s left when its last request has ended
 * (packages/http/stop-times.ts).
 */
const stopGraceMs = 2_000

export interface ConsumeDeps {
  log: EventLog
  /** Given for the consumer of old rows: their log, beside `log`, and the consumer lag of the live rows. */
  backfill?: { log: EventLog; liveLag: () => readonly PartitionLag[] }
  /** The log of rows that can't be stored, which `deadLetterUrl` names. */
  deadLetters: Pick<EventLog, 'partitions' | 'publish'>
  inserter: Pick<EventInserter, 'storeId' | 'shards' | 'insert' | 'findBadRows'>
  logger: Logger
  metrics: Metrics
  lingerMs?: number
  /** Inserts of live rows that run side by side; by default as many as there are cores, and 2 at least. */
  insertsMax?: number
  /** Memory for blocks that the consumers of a process share; unlimited by default. */
  budget?: ReadBudget
}

export interface EventConsumer extends Component {
  /** One line for each partition whose batch is being retried, for /readyz. */
  warnings: () => readonly string[]
  /** Consumer lag of the partitions that this writer owns. */
  lag: () => readonly PartitionLag[]
  /** Whether this writer has joined its consumer group; see LogConsumer. */
  hasJoined: () => boolean
}

/**
 * Moves events from the log, or from that of old rows, into ClickHouse: inserts each batch, publishes dead letters, then
 * commits. Partitions run in parallel, those of old rows take turns (backfill-pace.ts).
 */
export function eventConsumer(deps: ConsumeDeps): EventConsumer {
  const { log, backfill, deadLetters, logger } = deps
  const lane: Lane = backfill ? 'backfill' : 'live'
  const pace = backfill && backfillPace(liveTraffic(log, backfill.liveLag))
  let consumer: LogConsumer | undefined
  const lag = () => consumer?.lag() ?? []
  const metrics = writerMetrics(deps.metrics, lane, lag)
  const inserter: Pick<EventInserter, 'insert' | 'findBadRows'> = {
    findBadRows: (lines, options) => deps.inserter.findBadRows(lines, options),
    insert: async (batch, options) => {
      const stopTimer = metrics.insertSeconds.startTimer({ kind: batch.hasUndated ? 'undated' : 'dated' })
      const result = await tracedCall('insert', { 'db.system.name': 'clickhouse' }, () =>
        deps.inserter.insert(batch, options),
      )
      stopTimer()
      return result
    },
  }
  /** Reasons why batches are not stored yet, by partition. */
  const stalledPartitions = new Map<number, string>()
  // One insert keeps a core of ClickHouse busy; a second slot is needed while one hangs. Old rows take turns.
  const reserve: (partition: number, signal: AbortSignal) => Promise<InsertSlot> = pace
    ? async (_, signal) => ({ run: pace.measured, release: await pace.turn(signal) })
    : insertSlots(deps.insertsMax ?? Math.max(2, availableParallelism()))

  function recordRetry(partition: number, error: Error): void {
    metrics.retries.inc()
    stalledPartitions.set(partition, internalMessage(error))
  }

  /** Publishes dead letters until they are durable. */
  async function publishDeadLetters(
    dead: readonly Block[],
    partition: number,
    { signal, onFailure }: { signal: AbortSignal; onFailure: () => void },
  ): Promise<void> {
    if (dead.length === 0) return
    await retry(
      async () => {
        const count = await deadLetters.partitions()
        const placed = dead.map((block) => ({ ...withLane(block), partition: partition % count }))
        await deadLetters.publish(placed, { timeoutMs: deadLetterTimeoutMs })
      },
      {
        signal,
        onFailedAttempt: (error, attempt) => {
          recordRetry(partition, error)
          onFailure()
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

  function withLane({ headers, ...block }: Block): Block {
    const { letter } = headers
    if (lane === 'live' || letter === undefined) return { ...block, headers }
    return { ...block, headers: { ...headers, letter: { ...letter, lane } } }
  }

  async function consumeBatch(
    claim: Claim,
    batch: LogBatch,
    { logId, slot, ...options }: Parameters<typeof storeBatch>[1] & { logId: string; slot: InsertSlot | undefined },
  ) {
    const { partition, oldestAppendedAt } = batch
    const { signal } = options
    /** A failure may last, and must not delay the other partitions. */
    const onFailure = (): void => slot?.release()
    const started = performance.now()
    const { inserted, dead } = await storeBatch(batch, options, {
      inserter,
      withSlot: async (work) => (slot ?? (await reserve(partition, signal))).run(work),
      logId,
      logger,
      onRetry: (error) => {
        recordRetry(partition, error)
        onFailure()
      },
      ...(pace && { statements: (blocks) => pace.statements(blocks, { oldestAppendedAt, signal }) }),
    })
    await publishDeadLetters(dead, partition, { signal, onFailure })
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
        age_ms: Date.now() - oldestAppendedAt,
        ...(backfill && { lane }),
      },
      'batch',
    )
  }

  async function consumeClaim(claim: Claim, logId: string, stop: { requested: AbortSignal; graceOver: AbortSignal }) {
    /** Ends the attempts. */
    const signal = AbortSignal.any([claim.lost, stop.requested])
    /** Ends the wait for the running attempt: the partition's next claim ends a running insert. */
    const cut = AbortSignal.any([claim.lost, stop.graceOver])
    let firstOfClaim = true
    let slot: InsertSlot | undefined
    // What arrives while a batch waits for its slot or its turn is stored with it, and not after another wait.
    const ready = (): Promise<void> => {
      const reserved = reserve(claim.partition, signal).then((free) => {
        if (signal.aborted) free.release()
        else slot = free
      })
      return settledOrAborted(reserved, signal).catch(() => undefined)
    }
    try {
      for await (const batch of claim.batches({ ready })) {
        // Blocks that are not stored yet are read again after the stop, or by the partition's new owner.
        if (signal.aborted) continue
        const work = () => consumeBatch(claim, batch, { firstOfClaim, signal, logId, slot })
        await settledOrAborted(isTracing() ? tracedBatch(batch, work) : work(), cut)
          .catch((error: unknown) => {
            if (!signal.aborted) throw error
          })
          .finally(() => stalledPartitions.delete(batch.partition))
        firstOfClaim = false
        slot?.release()
      }
    } finally {
      slot?.release()
    }
  }

  return {
    name: backfill ? 'consumer of old events' : 'event consumer',
    lag,
    hasJoined: () => consumer?.hasJoined() ?? false,
    warnings: () =>
      [...stalledPartitions].map(
        ([partition, reason]) => `${backfill ? 'old events: ' : ''}partition ${partition} waits: ${reason}`,
      ),
    run: async (stopping) => {
      // The log's id for both lanes: the inserts of a partition exclude each other, as copies of an event travel on either.
      const [logId, storeId] = await Promise.all([log.id(), deps.inserter.storeId()])
      await refuseUnevenPartitions(backfill?.log ?? log, deps.inserter)
      const graceOver = new AbortController()
      const member = (backfill?.log ?? log).consumer({
        group: writerGroup(storeId),
        maxBatchBytes: backfill ? oldBatchBytesMax : batchBytesMax,
        maxBatchRows: backfill ? oldBatchRowsMax : batchRowsMax,
        ...(deps.budget && { budget: deps.budget }),
        lingerMs: backfill ? 0 : (deps.lingerMs ?? lingerMsDefault),
        onClaim: (claim) => consumeClaim(claim, logId, { requested: stopping, graceOver: graceOver.signal }),
      })
      consumer = member
      const stop = (): void => {
        setTimeout(() => {
          graceOver.abort(new Error('the writer stops'))
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

/** Throws FatalError, with what to do, when the log's partitions are not spread evenly over the shards of ClickHouse. */
async function refuseUnevenPartitions(
  log: Pick<EventLog, 'partitions'>,
  inserter: Pick<EventInserter, 'shards'>,
): Promise<void> {
  const [partitions, shards] = await Promise.all([log.partitions(), inserter.shards()])
  const uneven = unevenPartitionsText(partitions, shards)
  if (uneven !== undefined) throw new FatalError(uneven)
}

/** Processes a batch in a span that continues the trace of the first sampled publish in it, and links to the others. */
function tracedBatch(batch: LogBatch, work: () => Promise<void>): Promise<void> {
  const { partition, rows, blocks } = batch
  const attributes = { 'sluice.partition': partition, 'sluice.rows': rows, 'sluice.blocks': blocks.length }
  return traced('batch', { kind: 'consumer', attributes, causes: causesOfBlocks(blocks) }, work)
}

function causesOfBlocks(blocks: readonly Block[]): SpanContext[] {
  const traceparents = new Set<string>()
  for (const { headers } of blocks) {
    if (headers.traceparent !== undefined && traceparents.size < causesMax) traceparents.add(headers.traceparent)
  }
  return [...traceparents].flatMap((traceparent) => causesOf({ traceparent }))
}

/** Settles as `work` does, or rejects with the signal's reason if that aborts first; the work's result is then ignored. */
async function settledOrAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
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
