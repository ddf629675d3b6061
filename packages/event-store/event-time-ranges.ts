import type { QueryRunner } from './query-runner.ts'

/** Times of each site's first and last event, Unix ms, in all environments; sites without events are absent. */
export type EventTimeRanges = ReadonlyMap<string, { first: number; last: number }>

/** Throws QueryTooLargeError for sites with too many events, and whatever else the runner throws. */
export async function eventTimeRanges(siteIds: readonly string[], runner: QueryRunner): Promise<EventTimeRanges> {
  const [siteId] = siteIds
  if (siteId === undefined) return new Map()
  return siteIds.length === 1 ? readOneSite(siteId, runner) : readSeveralSites(siteIds, runner)
}

/**
 * Reads from both ends of the primary key's order: a granule or two of each part of the table, which for 5 M events are
 * 77,000 rows in 7 parts and 450,000 in 40.
 */
async function readOneSite(siteId: string, runner: QueryRunner): Promise<EventTimeRanges> {
  const { rows } = await runner.query<{ first: number | null; last: number | null }>({
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

/**
 * Reads two columns of every event of these sites, 14 bytes each: 0.14 s for 5 M events. Reading from both ends would
 * cost 10 ms for each site.
 */
async function readSeveralSites(siteIds: readonly string[], runner: QueryRunner): Promise<EventTimeRanges> {
  const { rows } = await runner.query<{ site_id: string; first: number; last: number }>({
    sql: `SELECT
      site_id,
      toUnixTimestamp64Milli(min(timestamp)) AS first,
      toUnixTimestamp64Milli(max(timestamp)) AS last
    FROM events WHERE site_id IN {site_ids:Array(String)} GROUP BY site_id`,
    params: { site_ids: siteIds },
  })
  return new Map(rows.map(({ site_id, first, last }) => [site_id, { first, last }]))
}
