import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { timeSql } from '../time-sql.ts'

/** The events whose copies are counted: those of a site in a range of timestamps, whose ids have a prefix. */
export interface CopiesSpec {
  siteId: string
  /** Unix ms, both inclusive. */
  start: number
  end: number
  /** Prefix of the ids. */
  idPrefix: string
  /** Maximum number of ids; the latest events are returned. */
  limit: number
}

/**
 * The number of rows of each event of a site, by `event_id`, in all environments. Events without rows are absent. Rows
 * that ClickHouse has merged into one count once. Throws the errors of the runner.
 */
export async function countCopies(spec: CopiesSpec, runner: QueryRunner): Promise<ReadonlyMap<string, number>> {
  const { siteId: site, start, end, idPrefix, limit } = spec
  const { rows } = await runner.query<{ id: string; copies: number }>({
    sql: `
SELECT event_id AS id, count() AS copies FROM events
WHERE site_id = {site:String} AND startsWith(event_id, {id_prefix:String})
  AND timestamp BETWEEN ${timeSql('{start:Int64}')} AND ${timeSql('{end:Int64}')}
GROUP BY event_id ORDER BY max(timestamp) DESC LIMIT {limit:UInt32}`,
    params: { site, start, end, id_prefix: idPrefix, limit },
  })
  return new Map(rows.map(({ id, copies }) => [id, copies]))
}
