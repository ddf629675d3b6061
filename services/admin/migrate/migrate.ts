import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { formerWriterGroup, writerGroup } from '@sluice/event-log/writer-group'
import { openEventInserter } from '@sluice/event-store/insert/insert-events'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'

const ignore = (): void => undefined
/** A failure is thrown. */
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/** Names of the migrations that were applied and of the topics that were created. */
export interface Migrated {
  postgres: readonly string[]
  clickHouse: readonly string[]
  topics: readonly string[]
}

/**
 * Brings both schemas up to date, creates the log's topics, and lets the store's writers continue where those of an earlier
 * build stopped; does nothing where nothing is missing. A `file:` log must not be open. Concurrent calls wait for each
 * other at a lock in Postgres. Throws when this build is too old for a schema.
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
  return withMigrationLock(postgres, async () => {
    const done = {
      postgres: await migratePostgres(postgres),
      clickHouse: await migrateClickHouse(clickHouseUrl),
      topics: logUrl.startsWith('kafka:') ? await ensureTopics(logUrl) : [],
    }
    await takeOverPositions(logUrl, clickHouseUrl)
    return done
  })
}

/** Gives the store's group of writers the positions of the group that all stores behind the log shared before. */
async function takeOverPositions(logUrl: string, clickHouseUrl: string): Promise<void> {
  const inserter = openEventInserter(clickHouseUrl)
  const log = await openEventLog(logUrl, { logger: silent })
  try {
    await log.replaceGroup(formerWriterGroup(await log.id()), writerGroup(await inserter.storeId()))
  } finally {
    await log.close()
    await inserter.close()
  }
}
