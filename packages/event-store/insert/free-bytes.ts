import type { ClickHouse } from '../clickhouse/client.ts'

/** The bytes that are free on the disks of the storage policy of `events`. Throws ClickHouseError. */
export async function readFreeBytes(clickHouse: Pick<ClickHouse, 'query'>): Promise<number> {
  const { rows } = await clickHouse.query<{ free: number }>(
    `SELECT sum(free_space) AS free FROM system.disks WHERE name IN (
       SELECT arrayJoin(disks) FROM system.storage_policies WHERE policy_name = (
         SELECT any(storage_policy) FROM system.tables WHERE database = currentDatabase() AND name = 'events'))`,
  )
  return rows[0]?.free ?? 0
}
