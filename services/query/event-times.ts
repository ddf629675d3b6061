import type { ApiRequest } from '@sluice/http/route'
import { type Ask, asker, type Questions, type TooMuch } from './ask.ts'

/** When the first and the last event of sites took place, Unix ms, in all environments; sites without events are not among them. */
export type EventTimes = ReadonlyMap<string, { first: number; last: number }>

const tooMany: TooMuch = {
  field: 'limit',
  reason: 'asks for more events than one answer may read: ask for fewer sites',
}

/** Asks in the request's name. Throws SluiceError 503 while ClickHouse is away. */
export async function findEventTimes(
  siteIds: readonly string[],
  clickHouse: Questions,
  request: Pick<ApiRequest, 'credential' | 'signal'>,
): Promise<EventTimes> {
  const [first] = siteIds
  if (first === undefined) return new Map()
  const ask = asker(clickHouse, request, tooMany)
  return siteIds.length === 1 ? ofOne(first, ask) : ofMany(siteIds, ask)
}

/**
 * In the order of the primary key, from both ends: it reads a granule or two of each part, of 5 M events 77,000 rows in
 * 7 parts and 450,000 in 40.
 */
async function ofOne(siteId: string, ask: Ask): Promise<EventTimes> {
  const { rows } = await ask<{ first: number | null; last: number | null }>({
    sql: `SELECT
      (SELECT toUnixTimestamp64Milli(timestamp) FROM events
        WHERE site_id = {site_id:String} ORDER BY timestamp LIMIT 1) AS first,
      (SELECT toUnixTimestamp64Milli(timestamp) FROM events
        WHERE site_id = {site_id:String} ORDER BY timestamp DESC LIMIT 1) AS last`,
    params: { site_id: siteId },
  })
  const { first, last } = rows[0] ?? { first: null, last: null }
  return new Map(first === null || last === null ? [] : [[siteId, { first, last }]])
}

/** Two columns of every event of these sites, 14 bytes each: 0.14 s for 5 M. A look from both ends costs 10 ms for each site. */
async function ofMany(siteIds: readonly string[], ask: Ask): Promise<EventTimes> {
  const { rows } = await ask<{ site_id: string; first: number; last: number }>({
    sql: `SELECT
      site_id,
      toUnixTimestamp64Milli(min(timestamp)) AS first,
      toUnixTimestamp64Milli(max(timestamp)) AS last
    FROM events WHERE site_id IN {site_ids:Array(String)} GROUP BY site_id`,
    params: { site_ids: siteIds },
  })
  return new Map(rows.map(({ site_id, first, last }) => [site_id, { first, last }]))
}
