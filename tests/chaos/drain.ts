import { setTimeout as sleep } from 'node:timers/promises'
import { backfillAgeMs } from '@sluice/contracts/lanes'
import type { CommittedOffset } from '@sluice/event-log/log'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { writerGroup } from '@sluice/event-log/writer-group'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { isRetryable } from '@sluice/runtime/errors'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { PassingInsert } from '../support/clickhouse-proxy.ts'
import type { Rig } from './rig.ts'

/** The parts of a rig whose log can be drained. */
export interface DrainedRig {
  key: string
  gateways: readonly [{ url: string }, ...unknown[]]
  /** The URL for services, and the servers if there are several. */
  clickHouse: { url: string; servers?: readonly { url: string }[] }
  logUrl: string
}

const site = 'sentinel'
/** A group that lost a member continues after up to 25 s. */
const lostAfterMs = 40_000
const markerPauseMs = 200
/** The gateway may still be reconnecting to Kafka. */
const acceptedTimeoutMs = 120_000
/** Enough events for every partition of both lanes to get some of each kind. */
const markers = 200

/**
 * Waits until all events that were sent before are processed. It sends marker events, undated, dated and old, to every
 * partition of both lanes: they follow the earlier events in the log, so the earlier ones have been processed once the
 * markers are visible. If markers are lost, a new set is sent, and one complete set is enough: so the audit also runs
 * when the software loses events. Old rows of one batch may be stored by several statements, month by month, so the
 * groups of both lanes must be at the end, too.
 */
export async function waitForDrain(rig: DrainedRig, timeoutMs: number): Promise<void> {
  const { url, servers = [{ url }] } = rig.clickHouse
  const clients = servers.map((server) => openClickHouse(server.url))
  const prefixes: string[] = []
  let sentAt = 0
  const areMarkersVisible = async (): Promise<boolean> => {
    if (Date.now() - sentAt > lostAfterMs) {
      prefixes.push(await sendMarkers(rig))
      sentAt = Date.now()
    }
    const found = new Map<string, number>()
    for (const client of clients) {
      const { rows } = await client.query<{ prefix: string; found: number }>(
        `SELECT substringIndex(event_id, '-', 1) AS prefix, uniqExact(event_id) AS found FROM events
         WHERE site_id = {site:String} AND has({prefixes:Array(String)}, prefix) GROUP BY prefix`,
        { site, prefixes },
      )
      for (const row of rows) found.set(row.prefix, (found.get(row.prefix) ?? 0) + row.found)
    }
    return [...found.values()].includes(markers)
  }
  try {
    await waitUntil(areMarkersVisible, 'the log is drained', timeoutMs)
  } catch (error) {
    throw new Error(`uncommitted blocks by partition: ${await uncommittedBlocks(rig)}`, { cause: error })
  } finally {
    for (const client of clients) await client.close()
  }
  await waitForGroups(rig, timeoutMs)
}

/** Waits until the writers have committed every block of both lanes. */
async function waitForGroups(rig: DrainedRig, timeoutMs: number): Promise<void> {
  await withPositions(rig, async (positions) => {
    const isAtEnd = async (): Promise<boolean> => {
      try {
        return (await positions()).every((lane) => lane.every(({ offset, endOffset }) => offset === endOffset))
      } catch (error) {
        // A log that is unavailable, or too busy to answer, is asked again.
        if (!isRetryable(error)) throw error
        return false
      }
    }
    await waitUntil(isAtEnd, 'the writers are at the ends of both lanes', timeoutMs)
  })
}

/** The numbers of blocks that the writers have not committed, for the message of a failure. */
function uncommittedBlocks(rig: DrainedRig): Promise<string> {
  return withPositions(rig, async (positions) => {
    const [live = [], backfill = []] = (await positions()).map((lane) =>
      lane.map(({ offset, endOffset }) => String(endOffset - offset)),
    )
    return `live ${live.join(' ')}, backfill ${backfill.join(' ')}`
  })
}

/**
 * Calls `work` with a function that returns the positions of the writers in the live log and in the backfill log.
 */
async function withPositions<T>(
  { logUrl, clickHouse }: DrainedRig,
  work: (positions: () => Promise<(readonly CommittedOffset[])[]>) => Promise<T>,
): Promise<T> {
  const inserter = openEventInserter(clickHouse.url)
  const live = await openEventLog(logUrl, { logger: silentLogger })
  const backfill = await openBackfillLog(logUrl, live, { logger: silentLogger })
  try {
    const group = writerGroup(await inserter.storeId())
    return await work(() => Promise.all([live, backfill].map((log) => log.committedOffsets(group))))
  } finally {
    await Promise.all([inserter.close(), live.close(), backfill.close()])
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

/** Sends marker events; returns what their ids have before the first hyphen. */
export async function sendMarkers({ gateways, key }: DrainedRig): Promise<string> {
  const prefix = String(process.hrtime.bigint())
  const sentAt = Date.now()
  const events = Array.from({ length: markers }, (_, n) => ({
    site_id: site,
    event_type: 'x',
    event_id: `${prefix}-${n}`,
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
