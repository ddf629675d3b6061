import { createInterface } from 'node:readline'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { type Piece, verifyPiece } from '@sluice/blobs/pieces'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { setGroupOffsets } from '@sluice/event-log/kafka/group-offsets'
import { writerGroup } from '@sluice/event-log/writer-group'
import type { BackupLocation } from '@sluice/event-store/backup'
import { rejectNewerClickHouseSchema } from '@sluice/event-store/migrate'
import { isEmptyPostgres, reconcile, type Reconciled } from '@sluice/postgres/after-restore'
import { backupStore } from '@sluice/postgres/backups'
import { requireReadableDump, restorePostgres } from '@sluice/postgres/dump'
import { failImportsWithoutFiles } from '@sluice/postgres/fail-imports-without-files'
import {
  checkPostgresSchema,
  migratePostgres,
  rejectNewerPostgresSchema,
  withMigrationLock,
} from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { type LostExportFiles, reconcileExports } from '@sluice/postgres/reconcile-exports'
import { shardStore } from '@sluice/postgres/shards'
import { postgresTime } from '@sluice/postgres/time'
import { internalMessage } from '@sluice/runtime/errors'
import type { BackupEngines, OpenTarget } from '../backup/backup.ts'
import { type Manifest, readManifest, requireKeyOf, type SecretsKeys, shardLocations } from '../backup/manifest.ts'
import { migrate, newLogPartitions } from '../migrate/migrate.ts'
import { type LanePlan, planLanes } from './plan-lanes.ts'

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

/** What a restore writes, all of it checked. */
interface RestorePlan {
  manifest: Manifest
  /** The backup of each shard. */
  locations: readonly BackupLocation[]
  lanes: readonly LanePlan[]
  losses: string[]
  /** Copies in the backup of the store's files; none with `clickHouseOnly`. */
  files: readonly Piece[]
}

/** How long a restore waits for a migration, a reshard or another restore to end. */
const lockWaitMs = 5_000

/**
 * Restores a backup into empty engines. Everything that can be checked is checked before the first change. ClickHouse's
 * part is restored under another name and read completely. It gets its own name last, so that no service can answer
 * from a half-restored database. Throws, with what to do; a failure before that moment leaves ClickHouse as it was. Also
 * throws during a migration, a reshard or another restore: two restores would use the same temporary database.
 */
export async function restore(engines: RestoreEngines, options: RestoreOptions): Promise<Restored> {
  // Outlives the lock, because only this output lists what was revoked and erased.
  return withMigrationLock(engines.postgres, () => restoreLocked(engines, options), {
    timeoutMs: lockWaitMs,
    outlivesLock: true,
  })
}

async function restoreLocked(engines: RestoreEngines, options: RestoreOptions): Promise<Restored> {
  const plan = await planRestore(engines, options)
  const written = await writeCopies(engines, options, plan)
  const repeatAdvice = options.clickHouseOnly
    ? 'Run the command again.'
    : 'Empty Postgres and the store of files, and run the command again.'
  const { clickHouse } = engines
  let reconciled: Reconciled & LostExportFiles
  try {
    options.say('Committed offsets, erasures…')
    reconciled = await reconcileEngines(engines, options, plan, written)
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
  return { ...reconciled, manifest: plan.manifest, losses: plan.losses }
}

/** Checks the backup and the engines. Changes nothing, but that new topics are made when losses are accepted. */
async function planRestore(engines: RestoreEngines, options: RestoreOptions): Promise<RestorePlan> {
  const { postgres, clickHouse } = engines
  const { source, clickHouseOnly } = options
  const manifest = await readManifest(source.store, source.url)
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
  const files = clickHouseOnly ? [] : await verifyCopies(engines, options, manifest)
  return { manifest, locations, lanes, losses, files }
}

/** Reads the dump and the copies of the files completely. Returns the latter; throws if one is damaged. */
async function verifyCopies(
  { programs }: RestoreEngines,
  { source: { store }, say }: RestoreOptions,
  manifest: Manifest,
): Promise<Piece[]> {
  say('Checking Postgres’s dump and the files…')
  await verifyPiece(store, manifest.postgres)
  await requireReadableDump(programs, await store.read(manifest.postgres.name))
  await verifyPiece(store, manifest.blobs)
  const files: Piece[] = []
  for await (const piece of listFiles(store, manifest)) {
    await verifyPiece(store, piece)
    files.push(piece)
  }
  return files
}

/**
 * Writes ClickHouse's part under another name, the files and Postgres. Returns the names of the files. After a failure
 * nothing is left of the first two.
 */
async function writeCopies(
  { clickHouse, blobs, programs }: RestoreEngines,
  { source: { store }, clickHouseOnly, say }: RestoreOptions,
  { manifest, locations, files }: RestorePlan,
): Promise<string[]> {
  const { database, storeId } = manifest.clickHouse
  say('ClickHouse…')
  await clickHouse.stage(locations, { database, storeId })
  const written: string[] = []
  try {
    say('Files…')
    for (const { name } of files) {
      const own = name.replace(/^blobs\//, '')
      await blobs.write(own, await store.read(name))
      written.push(own)
    }
    if (!clickHouseOnly) {
      say('Postgres…')
      await restorePostgres(programs, await store.read(manifest.postgres.name))
    }
  } catch (error) {
    // The first error is thrown, even if clearing an engine fails as well.
    await Promise.allSettled([blobs.remove(written), clickHouse.dropStaged()])
    throw error
  }
  return written
}

/** Makes the log's committed offsets and Postgres's records fit what was restored. */
async function reconcileEngines(
  { postgres }: RestoreEngines,
  { clickHouseOnly }: RestoreOptions,
  { manifest, lanes, losses }: RestorePlan,
  written: readonly string[],
): Promise<Reconciled & LostExportFiles> {
  const group = writerGroup(manifest.clickHouse.storeId)
  for (const { url, offsets } of lanes) await setGroupOffsets(url, group, offsets)
  // A backup of an older release lacks columns that the next statements name.
  if (!clickHouseOnly) await migratePostgres(postgres)
  const reconciled = await reconcile(postgres, { at: manifest.at, withEventImports: losses.length > 0 })
  return clickHouseOnly
    ? { ...reconciled, repeatedRuns: [], expiredExports: [] }
    : reconcileFiles(postgres, written, reconciled)
}

/**
 * Migrates what was restored to this build, under the lock that `restore` held, prepares the log, and records the
 * backup. Throws an Error that says what to do; all data is restored by then.
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
      startedAt: at,
      // The manifest does not contain the time of its end. With the time of the restore, the alert on old backups would
      // not fire.
      finishedAt: at,
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

async function* listFiles(store: Pick<BlobStore, 'read'>, { blobs }: Manifest): AsyncGenerator<Piece> {
  for await (const line of createInterface({ input: await store.read(blobs.name) })) yield JSON.parse(line) as Piece
}
