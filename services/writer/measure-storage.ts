import { replayedUntil, type ReplayPositions } from '@sluice/event-log/dead-letters'
import type { EventLog } from '@sluice/event-log/log'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import { internalMessage } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'

const defaultIntervalMs = 30_000

export interface StorageMeterDeps {
  deadLetters: Pick<EventLog, 'id' | 'positions'>
  /** Where Postgres keeps how far dead letters were replayed. */
  positions: Pick<ReplayPositions, 'read'>
  inserter: Pick<EventInserter, 'freeBytes'>
  logger: Pick<Logger, 'warn'>
  metrics: Metrics
  intervalMs?: number
}

/**
 * Measures twice a minute what somebody has to act on: dead letters that wait for a replay, and room on ClickHouse's
 * disks. What can't be measured has no value, and the reason is logged once: the metrics are no reason for a writer to fail.
 */
export function storageMeter({
  deadLetters,
  positions,
  inserter,
  logger,
  metrics,
  intervalMs = defaultIntervalMs,
}: StorageMeterDeps): Component {
  const measures = [
    {
      gauge: new Gauge({
        name: 'sluice_dead_letters_waiting',
        help: 'Records in the log of dead letters that were not replayed yet, copies included.',
        registers: [metrics],
      }),
      read: async () => {
        const partitions = await replayedUntil(deadLetters, positions)
        return partitions.reduce((sum, { next, end }) => sum + Number(end - next), 0)
      },
    },
    {
      gauge: new Gauge({
        name: 'sluice_clickhouse_disk_free_bytes',
        help: 'Bytes that are free on the disks of ClickHouse that hold the events.',
        registers: [metrics],
      }),
      read: () => inserter.freeBytes(),
    },
  ].map((each) => ({ ...each, isUnknown: false }))
  // A gauge without labels begins with 0, which would be an alarm.
  for (const { gauge } of measures) gauge.remove()

  async function measure(each: (typeof measures)[number]): Promise<void> {
    try {
      each.gauge.set(await each.read())
      each.isUnknown = false
    } catch (error) {
      each.gauge.remove()
      if (!each.isUnknown)
        logger.warn({ error: internalMessage(error) }, 'dead letters or free disk space could not be measured')
      each.isUnknown = true
    }
  }

  return poller({
    name: 'measures of stores',
    intervalMs,
    poll: async () => {
      await Promise.all(measures.map(measure))
    },
  })
}
