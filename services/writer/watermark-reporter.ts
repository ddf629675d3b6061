import type { Lane } from '@sluice/contracts/lanes'
import type { EventLog, PartitionLag } from '@sluice/event-log/log'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { withDeadline } from '@sluice/runtime/deadline'
import { unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { metricPrefix } from './metrics.ts'
import { type LogSnapshot, watermarkRule } from './watermark.ts'

const defaultIntervalMs = 250
/**
 * Interval of comparing the group's committed offsets with the end offsets of the log. The comparison needs no request.
 */
const compareMs = 50
/**
 * A writer without new watermarks reports at this interval, so that it still registers the partitions that it sees in
 * the log.
 */
const registrationMs = 1_000
/** A Postgres that hangs must not delay a stop. */
const storeTimeoutMs = 2_000

export interface WatermarkReporterDeps {
  lane: Lane
  logs: { live: Pick<EventLog, 'id' | 'endOffsets'>; backfill: Pick<EventLog, 'endOffsets'> }
  /** Consumer lag of the partitions that this writer owns. */
  lag: () => readonly PartitionLag[]
  store: Pick<WatermarkStore, 'advance'>
  logger: Logger
  metrics: Metrics
  clock: Pick<SynchronizedClock, 'now' | 'earliest'>
  /** Interval of requesting the log's end offsets. */
  intervalMs?: number
}

/**
 * Stores in Postgres, for the partitions that this writer owns, until when every accepted event is readable
 * (docs/decisions/017-freshness.md). The ends of the log are requested four times a second. A watermark is stored at
 * most 50 ms after the group has committed up to such an end. The reporter is independent of the inserts: while
 * Postgres is unavailable they continue, and the stored watermarks do not advance.
 */
export function watermarkReporter({
  lane,
  logs,
  lag,
  store,
  logger,
  metrics,
  clock,
  intervalMs = defaultIntervalMs,
}: WatermarkReporterDeps): Component {
  const rule = watermarkRule()
  /** The last stored watermarks of the partitions that this writer owns, Unix ms. */
  let reported: readonly (number | undefined)[] = []
  new Gauge({
    name: `${metricPrefix[lane]}_complete_until_age_seconds`,
    help: 'Time since the moment until which everything accepted in the partition is readable.',
    labelNames: ['partition'],
    registers: [metrics],
    // Computed at each scrape, so that the age grows while the watermark does not advance.
    collect() {
      this.reset()
      for (const { partition } of lag()) {
        const until = reported[partition]
        if (until !== undefined) this.set({ partition: String(partition) }, (clock.now() - until) / 1000)
      }
    },
  })

  let newest: Pick<LogSnapshot, 'requestedAt' | 'endOffsets'> | undefined
  /** `performance.now()` of the last request of the ends, and of the last report that Postgres stored. */
  let endsRequestedAt = -Infinity
  let storedAt = -Infinity

  /** The ends of the log, requested at most `intervalMs` ago. */
  async function recentEnds(): Promise<NonNullable<typeof newest>> {
    const now = performance.now()
    if (newest !== undefined && now - endsRequestedAt < intervalMs) return newest
    // Read before the request, because the response may take long.
    const requestedAt = clock.earliest()
    newest = { requestedAt, endOffsets: await logs[lane].endOffsets() }
    endsRequestedAt = now
    return newest
  }

  async function report(): Promise<void> {
    // Watermarks of both logs are stored under the id of the live log.
    const logId = await logs.live.id()
    const recent = await recentEnds()
    const committed = new Map(lag().map((each) => [each.partition, each.committed]))
    // While another writer owns a partition, its watermark advances, so the value of before is too old afterwards.
    reported = reported.map((each, partition) => (committed.has(partition) ? each : undefined))
    // Partitions that this writer does not own have no time. Before the first comparison of the clock, no partition has
    // one.
    const until = rule({ ...recent, committed }).map((each) => (each === -Infinity ? undefined : each))
    const hasMoved = until.some((each, partition) => each !== undefined && each !== reported[partition])
    if (!hasMoved && performance.now() - storedAt < registrationMs) return
    await withDeadline(store.advance(logId, until, lane), storeTimeoutMs, () => unavailable('Postgres is slow'))
    storedAt = performance.now()
    reported = until.map((each, partition) => each ?? reported[partition])
  }

  return poller({
    name: lane === 'backfill' ? 'backfill complete until' : 'complete until',
    intervalMs: compareMs,
    poll: report,
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'complete_until could not be stored in Postgres, it does not advance')
    },
  })
}
