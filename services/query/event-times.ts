import type { ClickHouse } from '@sluice/clickhouse/client'

/** When the first and the last event of sites took place, Unix ms, in all environments; sites without events are not among them. */
export type EventTimes = ReadonlyMap<string, { first: number; last: number }>

type Ask = (
  siteIds: readonly string[],
  clickHouse: Pick<ClickHouse, 'query'>,
  signal: AbortSignal,
) => Promise<EventTimes>

/** Limits of the question; with `readonly` ClickHouse cancels what a client that left had asked for. */
const settings = { readonly: '2', cancel_http_readonly_queries_on_client_close: 1, max_execution_time: 30 } as const

/** Throws SluiceError 503 while ClickHouse is away. */
export const findEventTimes: Ask = async (siteIds, clickHouse, signal) => {
  if (siteIds.length === 0) return new Map()
  return siteIds.length === 1 ? ofOne(siteIds, clickHouse, signal) : ofMany(siteIds, clickHouse, signal)
}

/**
 * In the order of the primary key, from both ends: it reads a granule or two of each part, of 5 M events 77,000 rows in
 * 7 parts and 450,000 in 40.
 */
const ofOne: Ask = async ([siteId = ''], clickHouse, signal) => {
  const { rows } = await clickHouse.query<{ first: number | null; last: number | null }>(
    `SELECT
      (SELECT toUnixTimestamp64Milli(timestamp) FROM events
        WHERE site_id = {site_id:String} ORDER BY timestamp LIMIT 1) AS first,
      (SELECT toUnixTimestamp64Milli(timestamp) FROM events
        WHERE site_id = {site_id:String} ORDER BY timestamp DESC LIMIT 1) AS last`,
    { site_id: siteId },
    { signal, settings },
  )
  const { first, last } = rows[0] ?? { first: null, last: null }
  return new Map(first === null || last === null ? [] : [[siteId, { first, last }]])
}

/** Two columns of every event of these sites, 14 bytes each: 0.14 s for 5 M. A look from both ends costs 10 ms for each site. */
const ofMany: Ask = async (siteIds, clickHouse, signal) => {
  const { rows } = await clickHouse.query<{ site_id: string; first: number; last: number }>(
    `SELECT
      site_id,
      toUnixTimestamp64Milli(min(timestamp)) AS first,
      toUnixTimestamp64Milli(max(timestamp)) AS last
    FROM events WHERE site_id IN {site_ids:Array(String)} GROUP BY site_id`,
    { site_ids: siteIds },
    { signal, settings },
  )
  return new Map(rows.map(({ site_id, first, last }) => [site_id, { first, last }]))
}
