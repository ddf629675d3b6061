import { setTimeout as sleep } from 'node:timers/promises'
import { backfillAgeMs } from '@sluice/contracts/lanes'
import { openClickHouse } from '@sluice/event-store/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { PassingInsert } from '../support/clickhouse-proxy.ts'
import type { Rig } from './rig.ts'

const site = 'sentinel'
/** A group that lost a member continues after up to 25 s. */
const lostAfterMs = 40_000
const markerPauseMs = 200
/** The gateway may still be reconnecting to Kafka. */
const acceptedTimeoutMs = 30_000
/** Enough events for every partition of both lanes to get some of each kind. */
const markers = 200

/**
 * Waits until all events that were sent before are processed. It sends marker events, undated, dated and old, to every partition of both lanes:
 * they follow the earlier events in the log, so the earlier ones have been processed once the markers are visible. Lost
 * markers are replaced by new ones, so that a product that loses events reaches its audit.
 */
export async function waitForDrain(rig: Rig, timeoutMs: number): Promise<void> {
  const clickHouse = openClickHouse(rig.clickHouse.url)
  let prefix = ''
  let sentAt = 0
  const areMarkersVisible = async (): Promise<boolean> => {
    if (Date.now() - sentAt > lostAfterMs) {
      prefix = await sendMarkers(rig)
      sentAt = Date.now()
    }
    const { rows } = await clickHouse.query<{ found: number }>(
      'SELECT uniqExact(event_id) AS found FROM events WHERE site_id = {site:String} AND startsWith(event_id, {prefix:String})',
      { site, prefix },
    )
    return rows[0]?.found === markers
  }
  try {
    await waitUntil(areMarkersVisible, 'the log is drained', timeoutMs)
  } finally {
    await clickHouse.close()
  }
}

/** Waits until each writer has inserted rows, and so has a share of the partitions again. */
export async function waitForBothWriters(rig: Rig, timeoutMs: number): Promise<void> {
  const inserting = new Set<number>()
  for (const [index, proxy] of rig.proxies.clickHouse.entries()) {
    proxy.hooks = {
      onArrived: (_insert: PassingInsert) => {
        inserting.add(index)
        return Promise.resolve()
      },
    }
  }
  const areBothInserting = async (): Promise<boolean> => {
    await sendMarkers(rig)
    await sleep(markerPauseMs)
    return inserting.size === 2
  }
  await waitUntil(areBothInserting, 'both writers insert', timeoutMs).finally(() => {
    for (const proxy of rig.proxies.clickHouse) proxy.hooks = {}
  })
}

/** Sends marker events; returns the prefix of their ids. */
export async function sendMarkers({ gateways, key }: Rig): Promise<string> {
  const prefix = `${process.hrtime.bigint()}-`
  const sentAt = Date.now()
  const events = Array.from({ length: markers }, (_, n) => ({
    site_id: site,
    event_type: 'x',
    event_id: `${prefix}${n}`,
    ...(n % 3 > 0 && { timestamp: sentAt - (n % 3 === 1 ? 0 : 2 * backfillAgeMs) }),
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
