import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { ensureTopics } from '@sluice/event-log/ensure-topics'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'

/** What was missing and is there now: names of migrations and topics. */
export interface Migrated {
  postgres: readonly string[]
  clickHouse: readonly string[]
  topics: readonly string[]
}

/**
 * Brings both schemas up to date and makes the log's topics; does nothing where nothing is missing. Several at once wait
 * for each other by a lock in Postgres. Throws when a schema is newer than this build.
 */
export async function migrate({
  postgres,
  clickHouseUrl,
  logUrl,
}: {
  postgres: Postgres
  clickHouseUrl: string
  logUrl: string
}): Promise<Migrated> {
  return withMigrationLock(postgres, async () => ({
    postgres: await migratePostgres(postgres),
    clickHouse: await migrateClickHouse(clickHouseUrl),
    topics: logUrl.startsWith('kafka:') ? await ensureTopics(logUrl) : [],
  }))
}
