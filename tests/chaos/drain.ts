import { openClickHouse } from '@sluice/clickhouse/client'
import { waitUntil } from '@sluice/engines/processes'
import { setTimeout as lasting } from 'node:timers/promises'
import type { PassingInsert } from '../harness/clickhouse-proxy.ts'
import type { Rig } from './rig.ts'

const site = 'sentinel'
/** A group that lost a member needs 25 s to go on. */
const lostAfterMs = 40_000
const sentinelPauseMs = 200
/** The gateway may still be on its way back to Kafka. */
const acceptedTimeoutMs = 30_000
/** So many that every partition gets some of both kinds. */
const sentinels = 200

/**
 * Waits until all that was sent before is stored: events with new ids, of both kinds and in every partition, come after
 * it in the log, so once they are visible the rest has been dealt with. Lost ones are followed by others, so that a
 * product that loses events comes to its audit.
 */
export async function waitForDrain(rig: Rig, timeoutMs: number): Promise<void> {
  const clickHouse = openClickHouse(rig.clickHouse.url)
  let prefix = ''
  let sentAt = 0
  const visible = async (): Promise<boolean> => {
    if (Date.now() - sentAt > lostAfterMs) {
      prefix = await sendSentinels(rig)
      sentAt = Date.now()
    }
    const { rows } = await clickHouse.query<{ found: number }>(
      'SELECT uniqExact(event_id) AS found FROM events WHERE site_id = {site:String} AND startsWith(event_id, {prefix:String})',
      { site, prefix },
    )
    return rows[0]?.found === sentinels
  }
  try {
    await waitUntil(visible, 'the log is drained', timeoutMs)
  } finally {
    await clickHouse.close()
  }
}

/** Waits until each writer inserts something: whatever was done to it, it takes its share of the partitions again. */
export async function waitForBothWriters(rig: Rig, timeoutMs: number): Promise<void> {
  const inserting = new Set<number>()
  for (const [index, line] of rig.lines.clickHouse.entries()) {
    line.hooks = {
      onArrived: (_insert: PassingInsert) => {
        inserting.add(index)
        return Promise.resolve()
      },
    }
  }
  const both = async (): Promise<boolean> => {
    await sendSentinels(rig)
    await lasting(sentinelPauseMs)
    return inserting.size === 2
  }
  await waitUntil(both, 'both writers insert', timeoutMs).finally(() => {
    for (const line of rig.lines.clickHouse) line.hooks = {}
  })
}

/** Returns what their ids begin with. */
async function sendSentinels({ gateways, key }: Rig): Promise<string> {
  const prefix = `${process.hrtime.bigint()}-`
  const events = Array.from({ length: sentinels }, (_, n) => ({
    site_id: site,
    event_type: 'x',
    event_id: `${prefix}${n}`,
    ...(n % 2 === 0 && { timestamp: Date.UTC(2026, 0, 1) }),
  }))
  const isAccepted = async (): Promise<boolean> => {
    const response = await fetch(`${gateways[0].url}/collect/batch`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ events }),
    })
    await response.arrayBuffer()
    return response.status === 202
  }
  await waitUntil(isAccepted, 'the sentinels are accepted', acceptedTimeoutMs)
  return prefix
}
