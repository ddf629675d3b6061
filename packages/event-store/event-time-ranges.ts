import type { QueryParams } from './clickhouse/client.ts'
import { granulesTable } from './clickhouse/cluster.ts'
import { parameterChunks } from './clickhouse/parameter-chunks.ts'
import type { QueryRunner } from './clickhouse/query-runner.ts'
import { timeSql } from './time-sql.ts'

/** Times of each site's first and last event in all environments, Unix ms. Sites without events are absent. */
export type EventTimeRanges = ReadonlyMap<string, { first: number; last: number }>

/**
 * Sites with at most this many rows are read completely, all in one statement. Reading 32 granules takes about as long
 * as the search for both ends of one site.
 */
const wholeRowsMax = 32 * 8_192
/**
 * Maximum number of sites in a statement that reads ends, because ClickHouse runs its subqueries one after the other.
 */
const endsPerStatement = 16

/**
 * Reads the time ranges of sites. The number of rows that it reads depends on the number of sites and on the number of
 * the table's parts, but not on the number of events. Throws the errors of the runner: QueryTooLargeError when a
 * statement would read too many rows.
 */
export async function eventTimeRanges(
  siteIds: readonly string[],
  runner: QueryRunner,
  { rowsMax = wholeRowsMax }: { rowsMax?: number } = {},
): Promise<EventTimeRanges> {
  if (siteIds.length === 0) return new Map()
  const large = await readInChunks(siteIds, (chunk) => findLargeSites(chunk, rowsMax, runner))
  const largeIds = new Set(large.map(({ siteId }) => siteId))
  const small = siteIds.filter((siteId) => !largeIds.has(siteId))
  const ranges = await Promise.all([readInChunks(small, (chunk) => readWhole(chunk, runner)), readEnds(large, runner)])
  return new Map(ranges.flat())
}

/**
 * Reads sites in several statements: ClickHouse limits a parameter, and the ids of a thousand sites may exceed that
 * limit.
 */
async function readInChunks<T>(
  siteIds: readonly string[],
  read: (chunk: string[]) => Promise<readonly T[]>,
): Promise<T[]> {
  return (await Promise.all(parameterChunks(siteIds).map(read))).flat()
}

type EventTimeRange = [siteId: string, range: { first: number; last: number }]

interface LargeSite {
  siteId: string
  /**
   * Times of two rows of the site, Unix ms: the first and the last row that begins a granule. Both rows may be deleted
   * ones.
   */
  early: number
  late: number
}

/** Reads only the index of the primary key, which has the site and time of one row in 8,192. */
async function findLargeSites(
  siteIds: readonly string[],
  rowsMax: number,
  runner: QueryRunner,
): Promise<readonly LargeSite[]> {
  const { rows } = await runner.query<LargeSite>({
    sql: `SELECT
      site_id AS siteId,
      toUnixTimestamp64Milli(min(timestamp)) AS early,
      toUnixTimestamp64Milli(max(timestamp)) AS late
    FROM ${runner.isSharded ? granulesTable : `mergeTreeIndex(currentDatabase(), 'events')`}
    WHERE site_id IN {site_ids:Array(String)} GROUP BY site_id HAVING sum(rows_in_granule) > {rows_max:UInt64}`,
    params: { site_ids: siteIds, rows_max: rowsMax },
  })
  return rows
}

/** Reads two columns of every event of these sites, 14 bytes each. */
async function readWhole(siteIds: readonly string[], runner: QueryRunner): Promise<readonly EventTimeRange[]> {
  if (siteIds.length === 0) return []
  const { rows } = await runner.query<{ site_id: string; first: number; last: number }>({
    sql: `SELECT
      site_id,
      toUnixTimestamp64Milli(min(timestamp)) AS first,
      toUnixTimestamp64Milli(max(timestamp)) AS last
    FROM events WHERE site_id IN {site_ids:Array(String)} GROUP BY site_id`,
    params: { site_ids: siteIds },
  })
  return rows.map(({ site_id, first, last }) => [site_id, { first, last }])
}

/** Reads from both ends of the primary key's order, one or two granules of each part of the table. */
async function readEnds(sites: readonly LargeSite[], runner: QueryRunner): Promise<readonly EventTimeRange[]> {
  const near = await readEndsBatchwise(sites, runner)
  const found = new Set(near.map(([siteId]) => siteId))
  // For the other sites, all rows up to `early`, or all rows from `late`, are deleted.
  const others = sites.filter(({ siteId }) => !found.has(siteId)).map(({ siteId }) => ({ siteId }))
  return [...near, ...(await readEndsBatchwise(others, runner))]
}

type Bounds = Pick<LargeSite, 'siteId'> & Partial<LargeSite>

async function readEndsBatchwise(sites: readonly Bounds[], runner: QueryRunner): Promise<readonly EventTimeRange[]> {
  const batches = Array.from({ length: Math.ceil(sites.length / endsPerStatement) }, (_, index) =>
    sites.slice(index * endsPerStatement, (index + 1) * endsPerStatement),
  )
  const ranges = await Promise.all(
    batches.map(async (batch) => {
      const { rows } = await runner.query<{ site_id: string; first: number | null; last: number | null }>({
        sql: batch.map(endsSql).join('\n    UNION ALL '),
        params: Object.assign({}, ...batch.map(endsParams)) as QueryParams,
      })
      return rows.flatMap(({ site_id, first, last }): EventTimeRange[] =>
        first === null || last === null ? [] : [[site_id, { first, last }]],
      )
    }),
  )
  return ranges.flat()
}

/**
 * SQL of a row with both ends of a site. With bounds, ClickHouse reads no parts that begin after `early` for the first
 * event, and no parts that end before `late` for the last one. An end is null when no event is left within its bound.
 */
function endsSql({ early, late }: Bounds, index: number): string {
  const time = 'toUnixTimestamp64Milli(timestamp)'
  const site = `{site_id_${index}:String}`
  const within = (comparison: string, bound: string): string =>
    ` AND timestamp ${comparison} ${timeSql(`{${bound}_${index}:Int64}`)}`
  return `SELECT ${site} AS site_id,
      (SELECT ${time} FROM events WHERE site_id = ${site}${early === undefined ? '' : within('<=', 'early')}
        ORDER BY timestamp LIMIT 1) AS first,
      (SELECT ${time} FROM events WHERE site_id = ${site}${late === undefined ? '' : within('>=', 'late')}
        ORDER BY timestamp DESC LIMIT 1) AS last`
}

function endsParams({ siteId, early, late }: Bounds, index: number): QueryParams {
  return {
    [`site_id_${index}`]: siteId,
    ...(early !== undefined && { [`early_${index}`]: early }),
    ...(late !== undefined && { [`late_${index}`]: late }),
  }
}
