import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import type { EventLog } from '@sluice/event-log/log'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { watermarkStore } from '@sluice/postgres/watermarks'

/** Names of the migrations that were applied and of the topics that were created. */
export interface Migrated {
  postgres: readonly string[]
  clickHouse: readonly string[]
  topics: readonly string[]
}

/**
 * Brings both schemas up to date and creates the log's topics; does nothing where nothing is missing. Concurrent calls
 * wait for each other at a lock in Postgres. Throws when a schema is newer than this build.
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

/**
 * Makes `complete_until` include a log before its first gateway publishes to it: until a writer has read a new log, no
 * later time is complete. Does nothing for a log that is known.
 */
export async function registerLog(postgres: Postgres, log: Pick<EventLog, 'id' | 'partitions'>): Promise<void> {
  const [id, partitions] = await Promise.all([log.id(), log.partitions()])
  const unknown = Array.from({ length: partitions }, () => undefined)
  await watermarkStore(postgres).advance(id, unknown)
}
