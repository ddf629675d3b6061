import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { type Piece, verifyPiece } from '@sluice/blobs/pieces'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { type GroupState, readGroupState, setGroupOffsets } from '@sluice/event-log/kafka/group-offsets'
import { backfillUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { writerGroup } from '@sluice/event-log/writer-group'
import { rejectNewerClickHouseSchema } from '@sluice/event-store/migrate'
import { isEmptyPostgres, reconcile, type Reconciled } from '@sluice/postgres/after-restore'
import { backupStore } from '@sluice/postgres/backups'
import { requireReadableDump, restorePostgres } from '@sluice/postgres/dump'
import { type LostExportFiles, reconcileExports } from '@sluice/postgres/lost-export-files'
import { failImportsWithoutFiles } from '@sluice/postgres/lost-import-files'
import { checkPostgresSchema, migratePostgres, rejectNewerPostgresSchema } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { shardStore } from '@sluice/postgres/shards'
import { postgresTime } from '@sluice/postgres/time'
import { internalMessage } from '@sluice/runtime/errors'
import type { BackupEngines, OpenTarget } from '../backup/backup.ts'
import {
  type LanePositions,
  type Manifest,
  readManifest,
  requireKeyOf,
  type SecretsKeys,
  shardLocations,
} from '../backup/manifest.ts'
import { migrate, newLogPartitions } from '../migrate/migrate.ts'

export interface RestoreEngines extends BackupEngines {
  clickHouseUrl: string
  blobs: BlobStore
}

export interface RestoreOptions extends SecretsKeys {
  source: OpenTarget
  /** Restores ClickHouse beside the Postgres and the files that are there. */
  clickHouseOnly: boolean
  /** Continues although the log no longer holds everything since the backup. */
  acceptLoss: boolean
  say: (line: string) => void
}

/** The result of a restore. */
export interface Restored extends Reconciled, LostExportFiles {
  manifest: Manifest
  /** Events since the backup that the log no longer holds, one sentence each; empty without `acceptLoss`. */
  losses: string[]
}

/** Longer than the session of a writer (packages/event-log/kafka/kafka-log.ts). */
const sessionEndMs = 20_000
const memberPollMs = 1_000
/**
 * A backup reads the committed offsets some seconds after its time, `manifest.at`, and the clocks of Postgres and of
 * Kafka's brokers may differ. Records that were appended up to this much later may therefore be below these offsets.
 */
const positionsReadMsMax = 300_000
const ignore = (): void => undefined
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/**
 * Restores a backup into empty engines. Everything that can be checked is checked before the first change. ClickHouse's
 * part is restored under another name and read completely. It gets its own name last, so that no service can answer
 * from a half-restored database. Throws, with what to do; a failure before that moment leaves ClickHouse as it was.
 */
export async function restore(engines: RestoreEngines, options: RestoreOptions): Promise<Restored> {
  const { postgres, clickHouse, blobs } = engines
  const { source, clickHouseOnly, say } = options
  const manifest = await readManifest(source.store, source.url)
  const { storeId, database } = manifest.clickHouse
  const locations = shardLocations(manifest)
  rejectNewerPostgresSchema(manifest.schemas.postgres)
  await rejectNewerClickHouseSchema(manifest.schemas.clickHouse)
  requireKeyOf(manifest, options)
  await clickHouse.requireShardCount(locations.length)
  await requireEmpty(engines, clickHouseOnly)
  // After a reshard, Postgres has the new number of shards: a store from before it would be refused once it is
  // restored.
  if (clickHouseOnly) await shardStore(postgres).requireSame(locations.length)
  // New topics have as many partitions as those of the backup had, at least.
  const partitions = Math.max(newLogPartitions(locations.length), manifest.lanes.live.next.length)
  if (options.acceptLoss) await ensureTopics(engines.logUrl, { partitions })
  const lanes = await planLanes(engines.logUrl, manifest)
  const losses = lanes.flatMap((lane) => lane.losses)
  if (losses.length > 0 && !options.acceptLoss) {
    throw new Error(`${losses.join('\n')}\nTo restore what there is, add --accept-loss.`)
  }
  const files: Piece[] = []
  if (!clickHouseOnly) {
    say('Checking Postgres’s dump and the files…')
    await verifyPiece(source.store, manifest.postgres)
    await requireReadableDump(engines.programs, await source.store.read(manifest.postgres.name))
    await verifyPiece(source.store, manifest.blobs)
    for await (const piece of listFiles(source.store, manifest)) {
      await verifyPiece(source.store, piece)
      files.push(piece)
    }
  }

  const repeatAdvice = clickHouseOnly
    ? 'Run the command again.'
    : 'Empty Postgres and the store of files, and run the command again.'
  say('ClickHouse…')
  await clickHouse.stage(locations, { database, storeId })
  const written: string[] = []
  let reconciled: Reconciled & LostExportFiles
  try {
    say('Files…')
    for (const { name } of files) {
      const own = name.replace(/^blobs\//, '')
      await blobs.write(own, await source.store.read(name))
      written.push(own)
    }
    if (!clickHouseOnly) {
      say('Postgres…')
      await restorePostgres(engines.programs, await source.store.read(manifest.postgres.name))
    }
  } catch (error) {
    // The first error is thrown, even if clearing an engine fails as well.
    await Promise.allSettled([blobs.remove(written), clickHouse.dropStaged()])
    throw error
  }
  try {
    say('Committed offsets, erasures…')
    for (const { url, offsets } of lanes) await setGroupOffsets(url, writerGroup(storeId), offsets)
    // A backup of an older release lacks columns that the next statements name.
    if (!clickHouseOnly) await migratePostgres(postgres)
    reconciled = {
      ...(await reconcile(postgres, { at: manifest.at, withEventImports: losses.length > 0 })),
      repeatedRuns: [],
      expiredExports: [],
    }
    if (!clickHouseOnly) reconciled = await reconcileFiles(postgres, written, reconciled)
    await clickHouse.eraseStaged(reconciled.erasures)
  } catch (error) {
    throw new Error(`${internalMessage(error)}\nNothing can be read from ClickHouse yet. ${repeatAdvice}`, {
      cause: error,
    })
  }
  try {
    await clickHouse.publishStaged()
  } catch (error) {
    throw new Error(
      `${internalMessage(error)}\nThe restore is not complete. If the database ${clickHouse.database} of a ClickHouse server holds ` +
        `what this command has restored, drop it there first. ${repeatAdvice}`,
      { cause: error },
    )
  }
  return { ...reconciled, manifest, losses }
}

/**
 * Migrates what was restored to this build, prepares the log, and records the backup. Throws an Error that says what to
 * do; all data is restored by then.
 */
export async function finishRestore(
  { postgres, clickHouseUrl, logUrl }: Pick<RestoreEngines, 'postgres' | 'clickHouseUrl' | 'logUrl'>,
  { backupId, at, clickHouse }: Pick<Manifest, 'backupId' | 'at' | 'clickHouse'>,
  target: string,
): Promise<void> {
  try {
    await migrate({ postgres, clickHouseUrl, logUrl })
    await backupStore(postgres).add({
      backupId,
      kind: clickHouse.base === null ? 'full' : 'incremental',
      target,
      startedAt: new Date(at),
      // The manifest does not contain the time of its end. With the time of the restore, the alert on old backups would
      // not fire.
      finishedAt: new Date(at),
    })
  } catch (error) {
    throw new Error(
      `${internalMessage(error)}\nAll data are restored. Run "npm run migrate", then start the services.`,
      { cause: error },
    )
  }
}

/**
 * Makes the exports and imports fit the files that were restored, because the dump may be newer than the copies of the
 * files.
 */
async function reconcileFiles(
  postgres: Postgres,
  files: readonly string[],
  found: Reconciled,
): Promise<Reconciled & LostExportFiles> {
  const at = Math.floor(await postgresTime(postgres))
  const failed = await failImportsWithoutFiles(postgres, files, at)
  return {
    ...found,
    ...(await reconcileExports(postgres, files, at)),
    repeatedImports: found.repeatedImports.filter((importId) => !failed.includes(importId)),
    lostImports: [...found.lostImports, ...failed].sort(),
  }
}

async function requireEmpty({ postgres, clickHouse, blobs }: RestoreEngines, clickHouseOnly: boolean): Promise<void> {
  const advice = 'Name an empty one, or remove what it holds if that is not needed.'
  if (!(await clickHouse.isEmpty())) {
    throw new Error(
      `SLUICE_CLICKHOUSE_URL: the database ${clickHouse.database} holds tables. ${advice} If Postgres alone is lost, keep them: ` +
        'docs/backup.md#postgres-alone restores it.',
    )
  }
  const isEmpty = await isEmptyPostgres(postgres)
  if (clickHouseOnly) {
    if (isEmpty) {
      throw new Error(
        'SLUICE_POSTGRES_URL: the database is empty, and --clickhouse-only restores beside a Postgres that is there. ' +
          'Name that one, or leave the option out.',
      )
    }
    await checkPostgresSchema(postgres)
    return
  }
  if (!isEmpty) throw new Error(`SLUICE_POSTGRES_URL: the database holds tables. ${advice}`)
  for await (const { name } of blobs.list('')) {
    throw new Error(`SLUICE_BLOBS_URL: the store holds files (${name}). ${advice}`)
  }
}

interface LanePlan {
  /** URL of the lane's topic. */
  url: string
  offsets: Map<number, bigint>
  losses: string[]
}

/** Throws while writers run. */
async function planLanes(logUrl: string, { at, lanes, clickHouse }: Manifest): Promise<LanePlan[]> {
  const group = writerGroup(clickHouse.storeId)
  const planned = await Promise.all(
    [
      { url: logUrl, positions: lanes.live },
      { url: backfillUrl(logUrl), positions: lanes.backfill },
    ].map(async ({ url, positions }) => {
      const log = await openEventLog(url, { logger: silent })
      try {
        // The call also waits for a broker that has had no group yet.
        await log.committedOffsets(group).catch(explainMissingTopic)
        // Read before the low and high offsets: otherwise records that Kafka deletes in between could hide that the
        // oldest records are newer than the backup.
        const afterBackup = await log.offsetsForTime(at + positionsReadMsMax)
        const state = await readGroupWithoutMembers(url, group)
        return { url, state, ...planLane({ logId: await log.id(), state, afterBackup }, positions) }
      } finally {
        await log.close()
      }
    }),
  )
  // If one partition shows that the topics were created again, the backup's offsets mean nothing in the other
  // partitions either. The writers then read all records, and store nothing twice.
  if (!planned.some(({ isNew }) => isNew)) return planned
  return planned.map(({ url, state, losses }) => ({ url, losses, offsets: firstOffsets(state) }))
}

function firstOffsets({ partitions }: GroupState): Map<number, bigint> {
  return new Map([...partitions].map(([partition, { low }]) => [partition, low]))
}

/** Kafka counts killed processes as members of the group until their sessions end. */
async function readGroupWithoutMembers(url: string, group: string): Promise<GroupState> {
  const until = performance.now() + sessionEndMs
  for (;;) {
    const state = await readGroupState(url, group)
    if (!state.hasMembers) return state
    if (performance.now() > until) {
      throw new Error('Writers are running: stop them, the workers and the gateways before a restore.')
    }
    await pause(memberPollMs)
  }
}

function explainMissingTopic(error: unknown): never {
  const reason = internalMessage(error)
  if (!reason.includes('has no topic')) throw error
  throw new Error(
    `${reason.replace(/:.*/, '')}, so the events since the backup are lost. If SLUICE_LOG_URL is right, add --accept-loss, ` +
      'which makes new topics.',
    { cause: error },
  )
}

interface PresentLog {
  logId: string
  state: GroupState
  /** The offset of the oldest record that was clearly appended after the backup, by partition. */
  afterBackup: readonly bigint[]
}

/**
 * Compares the backup's offsets with the log. A topic that was deleted and created again has the same log id. It is
 * recognised in two ways: it ends before the backup's offset, or its oldest record is below that offset although the
 * record was appended after the backup.
 */
function planLane({ logId, state, afterBackup }: PresentLog, { logId: knownId, next }: LanePositions) {
  const { partitions } = state
  const offsets = firstOffsets(state)
  if (logId !== knownId) {
    const loss =
      `SLUICE_LOG_URL leads to the log ${logId}, the backup is of ${knownId}: events that were accepted after the backup ` +
      'are not in it.'
    return { offsets, losses: [loss], isNew: true }
  }
  const losses: string[] = []
  let isNew = false
  for (const [partition, text] of next.entries()) {
    const [position, bounds] = [BigInt(text), partitions.get(partition)]
    if (bounds === undefined || position > bounds.high) {
      isNew = true
      losses.push(`Partition ${partition} of ${logId} ends before the backup: the topic was made anew.`)
    } else if (position > bounds.low && (afterBackup[partition] ?? bounds.high) <= bounds.low) {
      isNew = true
      losses.push(`Partition ${partition} of ${logId} begins after the backup: the topic was made anew.`)
    } else if (position < bounds.low) {
      losses.push(`Partition ${partition} of ${logId}: ${bounds.low - position} records since the backup are deleted.`)
    } else {
      offsets.set(partition, position)
    }
  }
  return { offsets, losses, isNew }
}

async function* listFiles(store: Pick<BlobStore, 'read'>, { blobs }: Manifest): AsyncGenerator<Piece> {
  for await (const line of createInterface({ input: await store.read(blobs.name) })) yield JSON.parse(line) as Piece
}
