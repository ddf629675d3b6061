import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import type { EventLog } from '@sluice/event-log/log'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { formerWriterGroup, writerGroup } from '@sluice/event-log/writer-group'
import { openEventInserter } from '@sluice/event-store/insert/insert-events'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { watermarkStore } from '@sluice/postgres/watermarks'

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
 * Brings both schemas up to date, creates the log's topics, registers the log, and lets the store's writers continue where
 * those of an earlier build stopped; does nothing where nothing is missing. A `file:` log must not be open. Concurrent
 * calls wait for each other at a lock in Postgres. Throws when this build is too old for a schema.
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
    await prepareLog(postgres, logUrl, clickHouseUrl)
    return done
  })
}

/**
 * Registers the log, and gives the store's group of writers the positions of the group that all stores behind the log
 * shared before.
 */
async function prepareLog(postgres: Postgres, logUrl: string, clickHouseUrl: string): Promise<void> {
  const inserter = openEventInserter(clickHouseUrl)
  const log = await openEventLog(logUrl, { logger: silent })
  try {
    await registerLog(postgres, log)
    await log.replaceGroup(formerWriterGroup(await log.id()), writerGroup(await inserter.storeId()))
  } finally {
    await log.close()
    await inserter.close()
  }
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
