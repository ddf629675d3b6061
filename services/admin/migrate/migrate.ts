import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import type { EventLog } from '@sluice/event-log/log'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { requireWholePartitions } from '@sluice/event-log/require-whole-partitions'
import { formerWriterGroup, writerGroup } from '@sluice/event-log/writer-group'
import { parseClickHouseUrl } from '@sluice/event-store/client'
import { storeServers } from '@sluice/event-store/cluster'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { shardStore } from '@sluice/postgres/shards'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { internalError } from '@sluice/runtime/errors'

const ignore = (): void => undefined
/** A failure is thrown. */
export const silentLogger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/** Names of the migrations that were applied and of the topics that were created. */
export interface Migrated {
  postgres: readonly string[]
  clickHouse: readonly string[]
  topics: readonly string[]
}

/**
 * Brings both schemas up to date, creates the log's topics, registers the log, and lets the store's writers continue where
 * those of an earlier build stopped; does nothing where nothing is missing. The first call notes the number of shards of
 * ClickHouse. A `file:` log must not be open. Concurrent calls wait for each other at a lock in Postgres. Throws when
 * this build is too old for a schema, when the number of shards has changed, and when that of the log's partitions is no
 * multiple of it.
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
    const shards = (await storeServers(parseClickHouseUrl(clickHouseUrl))).length
    const migratedPostgres = await migratePostgres(postgres)
    // Before anything else is changed: its servers may be the wrong ones.
    await shardStore(postgres).requireSame(shards)
    const done = {
      postgres: migratedPostgres,
      clickHouse: await migrateClickHouse(clickHouseUrl),
      topics: logUrl.startsWith('kafka:') ? await ensureTopics(logUrl, { partitions: newLogPartitions(shards) }) : [],
    }
    await prepareLog({ postgres, logUrl, clickHouseUrl, shards })
    return done
  })
}

/** Partitions of a new log: 4, or one for each shard. */
export function newLogPartitions(shards: number): number {
  return Math.max(4, shards)
}

/**
 * Notes the number of shards, registers the log, and gives the store's group of writers the positions of the group that all
 * stores behind the log shared before.
 */
async function prepareLog({
  postgres,
  logUrl,
  clickHouseUrl,
  shards,
}: {
  postgres: Postgres
  logUrl: string
  clickHouseUrl: string
  shards: number
}): Promise<void> {
  const inserter = openEventInserter(clickHouseUrl)
  const log = await openEventLog(logUrl, { logger: silentLogger })
  try {
    const areShardsNoted = (await shardStore(postgres).read()) !== undefined
    const backfill = await openBackfillLog(logUrl, log, { logger: silentLogger })
    try {
      await requireFittingLogs([log, backfill], { shards, areShardsNoted })
    } finally {
      await backfill.close()
    }
    // Before the log is registered: gateways then publish to it.
    await shardStore(postgres).fix(shards)
    await registerLog(postgres, log)
    await log.replaceGroup(formerWriterGroup(await log.id()), writerGroup(await inserter.storeId()))
  } finally {
    await log.close()
    await inserter.close()
  }
}

/**
 * Throws AppError, with what to do, when the partitions of the first of `logs` are not spread evenly over the shards, and when
 * one of them has records before the number of shards is noted: gateways of a store with one server put the ids that they make
 * into any partition, which would be stored on any shard.
 */
export async function requireFittingLogs(
  logs: readonly Pick<EventLog, 'partitions' | 'ends'>[],
  { shards, areShardsNoted }: { shards: number; areShardsNoted: boolean },
): Promise<void> {
  const [log] = logs
  if (log === undefined) return
  requireWholePartitions(await log.partitions(), shards)
  if (shards === 1 || areShardsNoted) return
  const ends = await Promise.all(logs.map((each) => each.ends()))
  if (ends.flat().every((end) => end === 0n)) return
  throw internalError(
    'The log has held events that were accepted for a store on one ClickHouse server, or for another store. Name a new ' +
      'topic in SLUICE_LOG_URL: a store on several shards begins with a log of its own.',
  )
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
