import type { QueryRunner } from './clickhouse/query-runner.ts'
import { timeSql } from './time-sql.ts'

/**
 * Whether a site has events, in any environment, that were received after `after` (Unix ms). Throws ClickHouseError.
 */
export async function hasEvents(siteId: string, runner: QueryRunner, after?: number): Promise<boolean> {
  const { rows } = await runner.query({
    sql:
      'SELECT 1 FROM events WHERE site_id = {site_id:String}' +
      (after === undefined ? '' : ` AND received_at > ${timeSql('{after:Int64}')}`) +
      ' LIMIT 1',
    params: { site_id: siteId, ...(after !== undefined && { after }) },
  })
  return rows.length > 0
}
