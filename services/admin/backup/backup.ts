import { isDeepStrictEqual } from 'node:util'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openIfExists } from '@sluice/blobs/open-if-exists'
import { type Piece, writePiece } from '@sluice/blobs/pieces'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { writerGroup } from '@sluice/event-log/writer-group'
import type { StoreBackup } from '@sluice/event-store/backup'
import { takeAdvisoryLock } from '@sluice/postgres/advisory-lock'
import { backupStore, type FinishedBackup } from '@sluice/postgres/backups'
import { dumpPostgres, type PostgresPrograms, requireDumpable } from '@sluice/postgres/dump'
import { appliedPostgresMigrations } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { shardStore } from '@sluice/postgres/shards'
import { postgresTime } from '@sluice/postgres/time'
import { internalMessage, isRetryable } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import { retry } from '@sluice/runtime/retry'
import { thisBuild } from '@sluice/runtime/schema-versions'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { sum } from '@sluice/runtime/sum'
import {
  fingerprintOf,
  type Manifest,
  manifestFormat,
  readManifest,
  requireKeyOf,
  type SecretsKeys,
  shardLocations,
  writeManifest,
} from './manifest.ts'
import { backupLocationOf } from './target.ts'

export interface BackupEngines {
  postgres: Postgres
  programs: PostgresPrograms
  clickHouse: StoreBackup
  logUrl: string
  blobs: Pick<BlobStore, 'list' | 'read'>
}

/** A backup's address, opened. */
export interface OpenTarget {
  url: string
  store: BlobStore
}

export interface BackupOptions extends SecretsKeys {
  target: OpenTarget
  /** An earlier backup: ClickHouse then writes only what has changed since. */
  base?: OpenTarget | undefined
  /** The disk of ClickHouse for a `file:` target. */
  disk: string
  /** Called with each step. */
  say: (line: string) => void
}

/** How long a backup that is complete waits for a Postgres that is unavailable. */
const recordTimeoutMs = 60_000

/**
 * Backs up a running installation. The order makes the parts fit. The committed offsets of the writers come first, so
 * that ClickHouse's part has every event below them. Postgres comes after ClickHouse, so that its dump has every
 * erasure that ClickHouse's part lacks. The manifest comes last. Throws, with what to do, when the target is not empty
 * or a part fails.
 */
export async function backUp(engines: BackupEngines, options: BackupOptions): Promise<Manifest> {
  const { postgres, clickHouse } = engines
  const { target, say } = options
  for await (const { name } of target.store.list('')) {
    throw new Error(`${target.url} is not empty (${name}): give each backup an address of its own.`)
  }
  const backupId = newId('bak')
  const at = Math.floor(await postgresTime(postgres))
  const storeId = await clickHouse.storeId()
  const base = options.base && (await readBase(options.base, storeId, target.url))
  if (base) await requireShardsOf(base.manifest, base.url, postgres)
  // ClickHouse's part may take hours.
  await requireDumpable(engines.programs)
  const schemas = await readSchemas(engines)
  const lanes = await readLanes(engines.logUrl, storeId)

  // Printed before the backup begins, because it is also the name of ClickHouse's part on its disk if the backup fails.
  say(`Backup ${backupId}`)
  say('ClickHouse…')
  const location = backupLocationOf(target.url, { disk: options.disk, backupId })
  const shardBackups = await clickHouse.backUp(location, base && shardLocations(base.manifest))
  const isSharded = shardBackups.length > 1
  say('Postgres…')
  const dump = await writeDump(engines, target.store)
  say('Files…')
  const blobs = await copyBlobs(engines.blobs, target.store)
  if (!isDeepStrictEqual(await readSchemas(engines), schemas)) {
    throw new Error('A migration ran during the backup, so its parts do not match. Make another backup.')
  }
  const manifest: Manifest = {
    format: isSharded ? manifestFormat.shards : manifestFormat.oneServer,
    backupId,
    at,
    build: thisBuild,
    lanes,
    schemas,
    secretsKeyFingerprint: fingerprintOf(options.secretsKey),
    clickHouse: {
      storeId,
      database: clickHouse.database,
      place: location,
      bytes: sum(shardBackups.map((shard) => shard.bytes)),
      ...(isSharded && { pieces: shardBackups }),
      base: base ? { backupId: base.manifest.backupId, target: base.url } : null,
    },
    postgres: dump,
    blobs,
  }
  await writeManifest(target.store, manifest)
  await recordBackup(postgres, {
    backupId,
    kind: base ? 'incremental' : 'full',
    target: target.url,
    startedAt: at,
  })
  return manifest
}

/**
 * Replaces the dump of Postgres in a backup by a new one, so that a restore knows later erasures and revoked keys. The
 * backup can be restored at every moment, and keeps the newest dump of overlapping calls. Returns whether that is the one
 * of this call. Throws when there is no backup of this installation.
 */
export async function renewPostgresDump(
  engines: BackupEngines,
  { target, ...keys }: Pick<BackupOptions, 'target'> & SecretsKeys,
): Promise<boolean> {
  const manifest = await readManifest(target.store, target.url)
  if ((await engines.clickHouse.storeId()) !== manifest.clickHouse.storeId) throw otherInstallation(target.url)
  requireKeyOf(manifest, keys)
  const schema = await appliedPostgresMigrations(engines.postgres)
  // A dump with another number of shards would make the backup useless.
  await requireShardsOf(manifest, target.url, engines.postgres)
  if (!isDeepStrictEqual(schema, manifest.schemas.postgres)) {
    throw new Error(`A migration ran since the backup in ${target.url}. Make a whole backup, at an address of its own.`)
  }
  const dump = await writeDump(engines, target.store)
  const isNewest = await engines.postgres.transaction(async (transaction) => {
    // Another call may have renewed it during the dump, which can take longer than the interval between two calls.
    await takeAdvisoryLock(transaction, 'backup', target.url)
    const latest = await readManifest(target.store, target.url)
    if (latest.postgres.at > dump.at) {
      await target.store.remove([dump.name])
      return false
    }
    await writeManifest(target.store, {
      ...latest,
      secretsKeyFingerprint: fingerprintOf(keys.secretsKey),
      postgres: dump,
    })
    // The former dump stays: a call whose lock was lost while it wrote the manifest may still name that one.
    await removeDumpsBefore(latest.postgres.at, target.store)
    return true
  })
  if (!isNewest) return false
  const backupId = newId('bak')
  await recordBackup(engines.postgres, {
    backupId,
    kind: 'postgres',
    target: target.url,
    startedAt: dump.at,
  })
  return true
}

/**
 * Records a backup that is complete. Throws an Error that says so when Postgres is unavailable for more than a minute.
 */
async function recordBackup(postgres: Postgres, backup: FinishedBackup): Promise<void> {
  try {
    await retry(() => backupStore(postgres).add(backup), {
      isPermanent: (error) => !isRetryable(error),
      timeoutMs: recordTimeoutMs,
    })
  } catch (error) {
    throw new Error(
      `The backup in ${backup.target} is complete and can be restored, but Postgres could not record it: ${internalMessage(error)}`,
      { cause: error },
    )
  }
}

async function readBase({ url, store }: OpenTarget, storeId: string, target: string) {
  const manifest = await readManifest(store, url)
  if (manifest.clickHouse.storeId !== storeId) throw otherInstallation(url)
  if (url.split(':')[0] !== target.split(':')[0]) {
    throw new Error('A backup and its base must both be file: or both be s3:.')
  }
  return { url, manifest }
}

/** Throws when the backup in `url` is from before a reshard, which keeps the id of the store. */
async function requireShardsOf(manifest: Manifest, url: string, postgres: Postgres): Promise<void> {
  const shards = (await shardStore(postgres).read()) ?? 1
  const backedUp = shardLocations(manifest).length
  if (shards === backedUp) return
  throw new Error(
    `The backup in ${url} is from before a reshard: the number of ClickHouse's shards was ${backedUp}, and is ${shards}. ` +
      'Make a whole backup, at an address of its own.',
  )
}

function otherInstallation(url: string): Error {
  return new Error(`${url} holds the backup of another ClickHouse. Make a whole backup, at an address of its own.`)
}

async function readSchemas({ postgres, clickHouse }: BackupEngines): Promise<Manifest['schemas']> {
  return { postgres: await appliedPostgresMigrations(postgres), clickHouse: await clickHouse.appliedMigrations() }
}

async function readLanes(logUrl: string, storeId: string): Promise<Manifest['lanes']> {
  const group = writerGroup(storeId)
  const live = await openEventLog(logUrl, { logger: silentLogger })
  const backfill = await openBackfillLog(logUrl, live, { logger: silentLogger })
  try {
    const [first, second] = await Promise.all(
      [live, backfill].map(async (log) => {
        const positions = await log.committedOffsets(group)
        const next = positions.toSorted((a, b) => a.partition - b.partition).map((each) => String(each.offset))
        return { logId: await log.id(), next }
      }),
    )
    if (first === undefined || second === undefined) throw new Error('a lane is missing')
    return { live: first, backfill: second }
  } finally {
    await Promise.all([live.close(), backfill.close()])
  }
}

async function writeDump(
  { postgres, programs }: BackupEngines,
  store: Pick<BlobStore, 'write'>,
): Promise<Manifest['postgres']> {
  const at = Math.floor(await postgresTime(postgres))
  return { ...(await writePiece(store, `postgres-${at}.dump`, dumpPostgres(programs))), at }
}

/** Removes the dumps from before `at` (Unix ms), also those that commands which were killed have left. */
async function removeDumpsBefore(at: number, store: Pick<BlobStore, 'list' | 'remove'>): Promise<void> {
  const older: string[] = []
  for await (const { name } of store.list('postgres-')) {
    if (Number(/^postgres-(\d+)\.dump$/.exec(name)?.[1]) < at) older.push(name)
  }
  await store.remove(older)
}

/** Copies the files. A file that is removed meanwhile is left out, because nobody needs it. */
async function copyBlobs(blobs: BackupEngines['blobs'], store: Pick<BlobStore, 'write'>): Promise<Piece> {
  async function* copied(): AsyncGenerator<Uint8Array> {
    for await (const { name } of blobs.list('')) {
      const content = await openIfExists(blobs, name)
      if (content === undefined) continue
      yield Buffer.from(`${JSON.stringify(await writePiece(store, `blobs/${name}`, content))}\n`)
    }
  }
  return writePiece(store, 'blobs.ndjson', copied())
}
