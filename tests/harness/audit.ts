import { openClickHouse } from '@sluice/clickhouse/client'
import { waitUntil } from '@sluice/engines/processes'
import type { Client } from './client.ts'
import type { SentEvent } from './sender.ts'

/** The store against a ledger, by set difference. All three are empty when nothing was lost, doubled or changed. */
export interface Audit {
  lost: string[]
  twice: string[]
  altered: string[]
  /** Rows found, for the record. */
  rows: number
}

/** Stops merges, so that ReplacingMergeTree can't hide what was stored twice. Call it before the first insert. */
export async function stopMerges(clickHouseUrl: string): Promise<void> {
  const clickHouse = openClickHouse(clickHouseUrl)
  await clickHouse.command('SYSTEM STOP MERGES events')
  await clickHouse.close()
}

const sentinels = 200

/**
 * Waits until all that is in the log is stored: events with new ids in every partition come after everything that was
 * sent before, so once they are visible the rest has been dealt with.
 */
export async function waitForDrain(client: Client, clickHouseUrl: string, deadlineMs = 60_000): Promise<void> {
  const siteId = 'sentinel'
  const events = Array.from({ length: sentinels }, (_, n) => ({
    site_id: siteId,
    event_type: 'x',
    event_id: `s${n}`,
    timestamp: Date.UTC(2026, 0, 1),
  }))
  const { status } = await client.collectBatch(events)
  if (status !== 202) throw new Error(`the sentinels were answered ${status}`)
  const clickHouse = openClickHouse(clickHouseUrl)
  try {
    await waitUntil(
      async () => {
        const { rows } = await clickHouse.query<{ found: number }>(
          'SELECT uniqExact(event_id) AS found FROM events WHERE site_id = {siteId:String}',
          { siteId },
        )
        return rows[0]?.found === sentinels
      },
      'the log is drained',
      deadlineMs,
    )
  } finally {
    await clickHouse.close()
  }
}

export async function audit(clickHouseUrl: string, acknowledged: readonly SentEvent[]): Promise<Audit> {
  const clickHouse = openClickHouse(clickHouseUrl)
  try {
    const { rows } = await clickHouse.query<{ id: string; stored: string[] }>(
      `SELECT event_id AS id, groupArray(toJSONString(tuple(site_id, toUnixTimestamp64Milli(timestamp), event_type, user_id, properties['n']))) AS stored
       FROM events WHERE site_id != 'sentinel' GROUP BY event_id`,
    )
    const found = new Map(rows.map(({ id, stored }) => [id, stored]))
    const sent = new Map(
      acknowledged.map((event) => [
        event.event_id,
        JSON.stringify([event.site_id, event.timestamp, event.event_type, event.user_id, String(event.properties.n)]),
      ]),
    )
    return {
      lost: [...sent.keys()].filter((id) => !found.has(id)),
      twice: rows.filter(({ stored }) => stored.length > 1).map(({ id }) => id),
      altered: rows.filter(({ id, stored }) => stored.some((row) => row !== sent.get(id))).map(({ id }) => id),
      rows: rows.reduce((sum, { stored }) => sum + stored.length, 0),
    }
  } finally {
    await clickHouse.close()
  }
}
