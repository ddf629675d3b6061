import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { parseKafkaUrl } from '@sluice/event-log/kafka/url'
import type { EventLog } from '@sluice/event-log/log'
import { deadLetterUrl, openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { requirePartitionsMultipleOf } from '@sluice/event-log/require-partitions-multiple-of'
import { formerWriterGroup, writerGroup } from '@sluice/event-log/writer-group'
import { type ClickHouseAddress, parseClickHouseUrl, withClickHouse } from '@sluice/event-store/clickhouse/client'
import { storeServers } from '@sluice/event-store/clickhouse/cluster'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { lastImportOfUsers } from '@sluice/event-store/insert/insert-users'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { checkRecordedShards, hasNoStore, haveEvents } from '@sluice/event-store/store-identity'
import { reconcile, type Reconciled } from '@sluice/postgres/after-restore'
import { importStore } from '@sluice/postgres/imports'
import { appliedPostgresMigrations, migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { replayPositionStore } from '@sluice/postgres/replay-positions'
import { shardStore } from '@sluice/postgres/shards'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { type AppError, internalError } from '@sluice/runtime/errors'
import { silentLogger } from '@sluice/runtime/silent-logger'

export interface MigrateOptions {
  postgres: Postgres
  clickHouseUrl: string
  logUrl: string
  /** Begins with an empty ClickHouse, or with an empty Postgres, when it has lost what the other one knows. */
  acceptLoss?: boolean
  /** `npm run migrate` can't reach the engines, because some are embedded in a standalone. */
  hasEmbeddedEngines?: boolean
}

/** Names of the migrations that were applied and of the topics that were created. */
export interface Migrated {
  postgres: readonly string[]
  clickHouse: readonly string[]
  topics: readonly string[]
  /** What was queued again for an empty store that replaces a lost one; undefined: none was lost. */
  reconciled: Reconciled | undefined
}

/**
 * Brings both schemas up to date, creates the log's topics, registers the log, and lets the writers of a store from
 * before stores had ids continue where they stopped; does nothing where nothing is missing. The first call records the
 * number of shards of ClickHouse. Imports continue after the last one that ClickHouse has. A `file:` log must not be
 * open. Concurrent calls wait for each other at a lock in Postgres.
 * Throws when this build is too old for a schema, when the number of shards has changed, when the number of the log's
 * partitions is no multiple of it, and when ClickHouse or Postgres has lost what the other one holds, unless
 * `acceptLoss`.
 */
export async function migrate({
  postgres,
  clickHouseUrl,
  logUrl,
  acceptLoss = false,
  hasEmbeddedEngines = false,
}: MigrateOptions): Promise<Migrated> {
  return withMigrationLock(postgres, async () => {
    const servers = await storeServers(parseClickHouseUrl(clickHouseUrl))
    const shards = servers.length
    if (!acceptLoss && (await isPostgresLost(postgres, servers))) throw lostPostgres(hasEmbeddedEngines)
    const postgresMigrations = await migratePostgres(postgres)
    // Checked before anything else is changed, because the servers may be the wrong ones.
    await shardStore(postgres).requireSame(shards)
    const isLost = await isStoreLost(postgres, servers)
    if (isLost && !acceptLoss) throw hasEmbeddedEngines ? lostStoreOfStandalone() : lostStore(servers)
    // The number of shards is recorded last: until then, a store may have got its id from an interrupted call.
    const isKnown =
      (await shardStore(postgres).read()) !== undefined &&
      (await checkRecordedShards(servers)).some((shard) => shard !== undefined)
    // Erasures and imports of users are queued again before there is a new store, because the store no longer counts as
    // lost afterwards. The log still has erased events, and the rows of imports of events.
    const reconciled = isLost ? await reconcile(postgres, { at: 0, withEventImports: false }) : undefined
    const clickHouseMigrations = await migrateClickHouse(clickHouseUrl)
    const topics = logUrl.startsWith('kafka:') ? await prepareTopics(postgres, logUrl, shards) : []
    await continueImports(postgres, servers)
    // An empty store that replaces a lost one reads the log from the beginning, also when `migrate` runs again before
    // its writers have committed an offset.
    await prepareLog({ postgres, logUrl, clickHouseUrl, shards, shouldTakeOver: !isLost && !isKnown })
    return { postgres: postgresMigrations, clickHouse: clickHouseMigrations, topics, reconciled }
  })
}

/**
 * Whether `servers` have no store although this Postgres knows that `migrate` has made one: the servers are the wrong
 * ones, or have lost their data. Requires the tables of Postgres.
 */
export async function isStoreLost(postgres: Postgres, servers: readonly ClickHouseAddress[]): Promise<boolean> {
  return (await shardStore(postgres).read()) !== undefined && hasNoStore(servers)
}

/** The error of a store that is lost, with what an operator does about it. */
export function lostStore(servers: readonly ClickHouseAddress[]): AppError {
  const [{ origin, database } = { origin: '', database: '' }] = servers
  const place = servers.length === 1 ? `at ${origin}` : 'of all servers of the cluster'
  return internalError(
    `The ClickHouse database ${database} ${place} has no store of events, and this Postgres knows one. If ` +
      'SLUICE_CLICKHOUSE_URL is wrong, correct it. If the data of ClickHouse are lost, restore them from a backup ' +
      '(docs/backup.md). Without a backup, stop all services and run "npm run migrate -- --accept-loss", which begins an empty ' +
      'store: the writers then store again what the log still holds. A new installation begins with an empty Postgres.',
  )
}

function lostStoreOfStandalone(): AppError {
  return internalError(
    'ClickHouse has no store of events, and this Postgres knows one. If SLUICE_CLICKHOUSE_URL is wrong, correct it. If ' +
      'the data of ClickHouse are lost, start from a copy of a backup of the whole data folder (docs/backup.md#standalone), ' +
      'or remove the whole data folder to begin without data. If SLUICE_POSTGRES_URL names a server, its database has to ' +
      'fit: restore it as well, or begin with an empty one.',
  )
}

/** The name of the migration that creates the table in which the number of shards is recorded. */
export const shardsMigration = '024-shards'

/**
 * Whether `servers` hold events although no migration of this Postgres was ever completed: it is the wrong one, or has
 * lost its data. The workers would then delete all files of exports and imports, because they would find no records of
 * them. The number of shards is what a migration records last.
 */
export async function isPostgresLost(postgres: Postgres, servers: readonly ClickHouseAddress[]): Promise<boolean> {
  const applied = await appliedPostgresMigrations(postgres)
  // `npm run admin-key` makes the tables alone.
  const isCompleted = applied.some(([name]) => name === shardsMigration)
    ? (await shardStore(postgres).read()) !== undefined
    : applied.length > 0
  return !isCompleted && haveEvents(servers)
}

/** The error of a Postgres that is lost, with what an operator does about it. */
export function lostPostgres(hasEmbeddedEngines = false): AppError {
  return internalError(
    'Postgres has no data of Sluice, and ClickHouse holds events. If SLUICE_POSTGRES_URL or SLUICE_CLICKHOUSE_URL is wrong, ' +
      'correct it. If the data of Postgres are lost, ' +
      (hasEmbeddedEngines
        ? 'docs/backup.md#standalone says what to do.'
        : 'restore its newest dump (docs/backup.md#postgres-alone). Without a dump, or for a copy of the events, run "npm run ' +
          'migrate -- --accept-loss", which begins with an empty Postgres: keys, sites and records of exports are then unknown, ' +
          'and the workers delete the files of unknown exports after a day.'),
  )
}

/**
 * New imports of users replace all records that the servers hold. A Postgres that was restored from an older dump, or
 * that is empty, would give them numbers that were used before.
 */
async function continueImports(postgres: Postgres, servers: readonly ClickHouseAddress[]): Promise<void> {
  const last = await Promise.all(servers.map((server) => withClickHouse(server, lastImportOfUsers)))
  await importStore(postgres).continueAfter(Math.max(...last))
}

/**
 * Creates the missing topics, and deletes positions of replays that a new topic of dead letters has made wrong. Returns
 * the names of the topics that were created.
 */
async function prepareTopics(postgres: Postgres, logUrl: string, shards: number): Promise<string[]> {
  const created = await ensureTopics(logUrl, { partitions: newLogPartitions(shards) })
  await forgetReplays(postgres, logUrl, created)
  return created
}

/**
 * Deletes the positions of replays if the topic of dead letters was created again, by this call or before, because its
 * letters have not been replayed yet. A restored Postgres may have positions of the former topic, which lie beyond the
 * end of the new one.
 */
async function forgetReplays(postgres: Postgres, logUrl: string, newTopics: readonly string[]): Promise<void> {
  const deadUrl = deadLetterUrl(logUrl)
  const deadLetters = await openEventLog(deadUrl, { logger: silentLogger })
  try {
    const positions = replayPositionStore(postgres)
    const [id, ends] = [await deadLetters.id(), await deadLetters.endOffsets()]
    const isBeyondEnd = [...(await positions.read(id))].some(([partition, next]) => next > (ends[partition] ?? 0n))
    if (isBeyondEnd || newTopics.includes(parseKafkaUrl(deadUrl).topic)) await positions.forget(id)
  } finally {
    await deadLetters.close()
  }
}

/** Partitions of a new log: 4, or one for each shard if there are more than 4 shards. */
export function newLogPartitions(shards: number): number {
  return Math.max(4, shards)
}

/**
 * Records the number of shards, and registers the log. With `shouldTakeOver`, gives the store's group of writers the
 * positions of the group that all stores behind the log shared before they had ids.
 */
async function prepareLog({
  postgres,
  logUrl,
  clickHouseUrl,
  shards,
  shouldTakeOver,
}: {
  postgres: Postgres
  logUrl: string
  clickHouseUrl: string
  shards: number
  shouldTakeOver: boolean
}): Promise<void> {
  const inserter = openEventInserter(clickHouseUrl)
  const log = await openEventLog(logUrl, { logger: silentLogger })
  try {
    const areShardsRecorded = (await shardStore(postgres).read()) !== undefined
    const backfill = await openBackfillLog(logUrl, log, { logger: silentLogger })
    try {
      await requireFittingLogs([log, backfill], { shards, areShardsRecorded })
      const group = writerGroup(await inserter.storeId())
      // Done before the number of shards is recorded, because a later call takes nothing over.
      if (shouldTakeOver)
        for (const each of [log, backfill]) await each.replaceGroup(formerWriterGroup(await each.id()), group)
      // Recorded before the log is registered, because gateways then publish to it.
      await shardStore(postgres).record(shards)
      await registerLog(postgres, log)
      // Only a store that is lost, or whose id is, had another group of writers in a file.
      for (const each of [log, backfill]) await each.keepOnlyGroup(group)
    } finally {
      await backfill.close()
    }
  } finally {
    await log.close()
    await inserter.close()
  }
}

/**
 * Throws AppError, with what to do, when the partitions of the first of `logs` are not spread evenly over the shards,
 * and when one of them has records before the number of shards is recorded: gateways of a store with one server put
 * events with generated ids into any partition, and such events would be stored on any shard.
 */
export async function requireFittingLogs(
  logs: readonly Pick<EventLog, 'partitions' | 'endOffsets'>[],
  { shards, areShardsRecorded }: { shards: number; areShardsRecorded: boolean },
): Promise<void> {
  const [log] = logs
  if (log === undefined) return
  requirePartitionsMultipleOf(shards, await log.partitions())
  if (shards === 1 || areShardsRecorded) return
  const ends = await Promise.all(logs.map((each) => each.endOffsets()))
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
