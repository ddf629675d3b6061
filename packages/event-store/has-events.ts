import type { QueryRunner } from './query-runner.ts'

/** Whether a site has events, in any environment. Throws ClickHouseError. */
export async function hasEvents(siteId: string, runner: QueryRunner): Promise<boolean> {
  const { rows } = await runner.query({
    sql: 'SELECT 1 FROM events WHERE site_id = {site_id:String} LIMIT 1',
    params: { site_id: siteId },
  })
  return rows.length > 0
}
