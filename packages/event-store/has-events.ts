import type { QueryRunner } from './clickhouse/query-runner.ts'
import { timeSql } from './time-sql.ts'

/**
 * Whether a site has events, in any environment, that were received after `receivedAfter` (Unix ms), or at any time if it
 * is undefined. Throws ClickHouseError.
 */
export async function hasEvents(siteId: string, runner: QueryRunner, receivedAfter?: number): Promise<boolean> {
  const { rows } = await runner.query({
    sql:
      'SELECT 1 FROM events WHERE site_id = {site_id:String}' +
      (receivedAfter === undefined ? '' : ` AND received_at > ${timeSql('{received_after:Int64}')}`) +
      ' LIMIT 1',
    params: { site_id: siteId, ...(receivedAfter !== undefined && { received_after: receivedAfter }) },
  })
  return rows.length > 0
}
