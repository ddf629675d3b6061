import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'

/** Names of the migrations that were applied and of the topics that were created. */
export interface Migrated {
  postgres: readonly string[]
  clickHouse: readonly string[]
  topics: readonly string[]
}

/**
 * Brings both schemas up to date and creates the log's topics; does nothing where nothing is missing. Concurrent calls
 * wait for each other at a lock in Postgres. Throws when this build is too old for a schema.
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
