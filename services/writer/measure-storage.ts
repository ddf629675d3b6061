import { dayMs } from '@sluice/contracts/time-units'
import { deadLetterDays, type ReplayedOffsets, replayedUntil } from '@sluice/event-log/dead-letters'
import type { CommittedOffset, EventLog } from '@sluice/event-log/log'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import { internalMessage } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { poller } from '@sluice/runtime/poller'
import { sum } from '@sluice/runtime/sum'
import type { Component } from '@sluice/runtime/supervisor'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

const defaultIntervalMs = 30_000
/**
 * After this many days, a waiting dead letter counts as expiring. In the remaining time, operators can find out why it
 * can't be stored.
 */
const expiringDays = 300

export interface StorageMeterDeps {
  deadLetters: Pick<EventLog, 'id' | 'committedOffsets' | 'offsetsForTime'>
  /** The store in Postgres that records how far dead letters were replayed. */
  positions: Pick<ReplayedOffsets, 'read'>
  inserter: Pick<EventInserter, 'freeBytes'>
  logger: Pick<Logger, 'warn'>
  metrics: Metrics
  clock: Pick<SynchronizedClock, 'now'>
  intervalMs?: number
}

/**
 * Measures twice a minute what an operator may have to act on: waiting dead letters, and free space on ClickHouse's
 * disks. If something can't be measured, its metric has no value, and the reason is logged once. The writer does not
 * fail because of it.
 */
export function storageMeter({
  deadLetters,
  positions,
  inserter,
  logger,
  metrics,
  clock,
  intervalMs = defaultIntervalMs,
}: StorageMeterDeps): Component {
  const registers = [metrics]
  const waiting = new Gauge({
    name: 'sluice_dead_letters_waiting',
    help: 'Records in the log of dead letters that were not replayed yet, copies included.',
    registers,
  })
  const expiring = new Gauge({
    name: 'sluice_dead_letters_expiring',
    help: `Dead letters that have waited for more than ${expiringDays} days; after ${deadLetterDays} days they are deleted.`,
    registers,
  })
  const freeBytes = new Gauge({
    name: 'sluice_clickhouse_disk_free_bytes',
    help: 'Bytes that are free on the disks of ClickHouse that hold the events.',
    registers,
  })

  async function measureDeadLetters(): Promise<void> {
    const recentFrom = clock.now() - expiringDays * dayMs
    const partitions = await replayedUntil(deadLetters, positions)
    const recent = await deadLetters.offsetsForTime(recentFrom)
    const count = (until: (place: CommittedOffset) => bigint): number =>
      sum(partitions.map((place) => Math.max(0, Number(until(place) - place.offset))))
    waiting.set(count(({ endOffset }) => endOffset))
    expiring.set(count(({ partition }) => recent[partition] ?? 0n))
  }

  const measures = [
    { name: 'dead letters', gauges: [waiting, expiring], measure: measureDeadLetters },
    {
      name: 'free disk space',
      gauges: [freeBytes],
      measure: async () => freeBytes.set(await inserter.freeBytes()),
    },
  ].map((each) => ({ ...each, isUnknown: false }))
  // A gauge without labels begins with 0, which would raise an alarm.
  for (const { gauges } of measures) for (const each of gauges) each.remove()

  async function tryToMeasure(each: (typeof measures)[number]): Promise<void> {
    try {
      await each.measure()
      each.isUnknown = false
    } catch (error) {
      for (const unknown of each.gauges) unknown.remove()
      if (!each.isUnknown) logger.warn({ error: internalMessage(error) }, `${each.name} could not be measured`)
      each.isUnknown = true
    }
  }

  return poller({
    name: 'measures of stores',
    intervalMs,
    poll: async () => {
      await Promise.all(measures.map(tryToMeasure))
    },
  })
}
