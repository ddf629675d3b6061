import { isRetryable } from '@sluice/runtime/errors'
import { untilSuccessful } from '@sluice/runtime/once'
import { retry } from '@sluice/runtime/retry'
import type { AppliedMigrations } from '@sluice/runtime/schema-versions'
import { sleep } from '@sluice/runtime/sleep'
import { type ClickHouseAddress, openClickHouseAt, parseClickHouseUrl } from './clickhouse/client.ts'
import { lazyServers, storeServers } from './clickhouse/cluster.ts'
import { dropSettings } from './clickhouse/strict-settings.ts'
import type { ErasedRows } from './erasures/erased-rows.ts'
import { openEventEraserAt } from './erasures/event-eraser.ts'
import { appliedClickHouseMigrations } from './migrate.ts'
import { checkRecordedShards, readStoreId, recordServer } from './store-identity.ts'

/** Where ClickHouse writes its part of a backup: below a disk that its configuration names, or on an S3 server. */
export type BackupLocation = { kind: 'disk'; disk: string; name: string } | { kind: 's3'; url: string }

/** Credentials for S3; without them ClickHouse uses those of its own configuration. */
export interface BackupCredentials {
  accessKeyId: string
  secretAccessKey: string
}

/** The backup of one shard, or of the only server, as ClickHouse has written it. The manifest holds these fields. */
export interface ShardBackup {
  place: BackupLocation
  bytes: number
}

/**
 * Backup and restore of ClickHouse for an operator's command: of one server, or of all shards of a cluster. Every
 * method throws ClickHouseError.
 */
export interface StoreBackup {
  database: string
  /** The same UUID as `EventInserter.storeId`; every server must answer. */
  storeId(): Promise<string>
  /** Throws an Error, with what to do, when the migrations of the servers differ. */
  appliedMigrations(): Promise<AppliedMigrations>
  /**
   * Throws an Error, with what to do, unless the store has as many shards as the backup; 1 stands for a single server.
   */
  requireShardCount(backedUp: number): Promise<void>
  /**
   * Backs the database up to `location`. With several shards, the backup of each lies below `location`, and the result
   * is in the order of the shards. `base` holds the locations of an earlier backup: then only what has changed since is
   * stored, and the earlier backup must be kept.
   */
  backUp(location: BackupLocation, base?: readonly BackupLocation[]): Promise<readonly ShardBackup[]>
  /** Whether the database is missing, or has no tables, on every server. */
  isEmpty(): Promise<boolean>
  /**
   * Restores the backups at `locations`, of a database with the name `expected.database`, under a temporary name beside
   * this database, and reads all its parts to check them. Rejects when a part of the backup is missing or damaged, or
   * when the backup is of another store or shard; then nothing of it is left on any server.
   */
  stage(locations: readonly BackupLocation[], expected: { database: string; storeId: string }): Promise<void>
  /** Deletes what the erasures select from the staged database, and stores their tombstones. */
  eraseStaged(erasures: readonly ErasedRows[]): Promise<void>
  /** Puts the staged database in the place of this one, which must be empty. */
  publishStaged(): Promise<void>
  dropStaged(): Promise<void>
  close(): Promise<void>
}

const pollMs = 500
/** Maximum network interruption during a backup or restore of ClickHouse, which may take hours. */
const unreachableTimeoutMs = 60_000
/** Erasures of one DELETE: a statement has a limited size. */
const erasuresPerDelete = 100
/** The projections of `events`, which are made from its rows. */
const projections = ['counts', 'user_weeks']
/** A backup does not fail because of a broken projection, see `checkStaged`. */
const projectionSettings = 'check_projection_parts = false, allow_backup_broken_projections = true'
const isBrokenProjection = (message: string): boolean => message.includes('(BROKEN_PROJECTION)')
/** Long enough for a statement that reads or rewrites a whole table. */
const statementTimeoutMs = 24 * 3_600_000

/**
 * Opens no connection before the first use. `credentials` are for backups to S3. Throws TypeError for a URL that names
 * no ClickHouse.
 */
export function openStoreBackup(url: string, credentials?: BackupCredentials): StoreBackup {
  const address = parseClickHouseUrl(url)
  const { database, cluster } = address
  const addresses = untilSuccessful(() => storeServers(address))
  const servers = lazyServers(async () => (await addresses()).map((server) => openServerBackup(server, credentials)))
  const dropStaged = (): Promise<void> => servers.forEach((server) => server.dropStaged())

  async function isEmpty(): Promise<boolean> {
    return (await servers.map((server) => server.isEmpty())).every(Boolean)
  }

  async function requireShardCount(backedUp: number): Promise<void> {
    const shards = (await addresses()).length
    if (backedUp === shards) return
    throw new Error(
      `The backup is of ${backedUp} ${backedUp === 1 ? 'server' : 'shards'} of ClickHouse, and SLUICE_CLICKHOUSE_URL leads to ` +
        `${shards}. A backup can be restored only to the same number: set SLUICE_CLICKHOUSE_URL to ` +
        `${backedUp === 1 ? 'a single server' : `a cluster of ${backedUp} shards ("?cluster=")`}.`,
    )
  }

  return {
    database,
    storeId: async () => {
      const [first] = await servers.all()
      if (cluster === undefined && first !== undefined) return first.storeId()
      const [firstShard, ...others] = await checkRecordedShards(await addresses())
      if (firstShard === undefined || others.includes(undefined)) {
        throw new Error('A ClickHouse server of the cluster holds no shard of the store. Run "npm run migrate".')
      }
      return firstShard.id
    },
    appliedMigrations: async () => {
      const [first = [], ...others] = await servers.map((server) => server.appliedMigrations())
      if (others.some((other) => JSON.stringify(other) !== JSON.stringify(first))) {
        throw new Error('The ClickHouse servers of the cluster have different migrations. Run "npm run migrate".')
      }
      return first
    },
    requireShardCount,
    backUp: async (location, base) => {
      const { length: shards } = await addresses()
      if (base !== undefined) await requireShardCount(base.length)
      return servers.map(async (server, shard) => {
        const own = shards === 1 ? location : locationOfShard(location, shard)
        return { place: own, ...(await server.backUp(own, base?.[shard])) }
      })
    },
    isEmpty,
    stage: async (locations, expected) => {
      await requireShardCount(locations.length)
      // A restore that was killed may have left it.
      await dropStaged()
      try {
        const shards = locations.length
        const ownLocation = (shard: number): BackupLocation => {
          const location = locations[shard]
          if (location === undefined) throw new TypeError(`there is no piece of shard ${shard}`)
          return location
        }
        await servers.forEach((server, shard) => server.stage(ownLocation(shard), { ...expected, shard, shards }))
      } catch (error) {
        // An unavailable server keeps the staged database. This must not hide the reason of the failure.
        await dropStaged().catch(() => undefined)
        throw error
      }
    },
    eraseStaged: (erasures) => servers.forEach((server) => server.eraseStaged(erasures)),
    publishStaged: async () => {
      // Checked before the first rename: while a shard is missing, nothing can be read from the store.
      if (!(await isEmpty())) throw new Error(`The ClickHouse database ${database} was filled meanwhile.`)
      await servers.forEach((server) => server.publishStaged())
    },
    dropStaged,
    close: servers.close,
  }
}

/** Where the backup of a shard lies. */
function locationOfShard(location: BackupLocation, shard: number): BackupLocation {
  const name = `shard-${shard + 1}`
  if (location.kind === 'disk') return { ...location, name: `${location.name}/${name}` }
  return { ...location, url: `${location.url.replace(/\/$/, '')}/${name}` }
}

/** The backup of one server: the only server of a store, or the server of a shard. */
function openServerBackup(address: ClickHouseAddress, credentials: BackupCredentials | undefined) {
  const { database, origin } = address
  const staging = `${database}_restoring`
  const clickHouse = openClickHouseAt(address)
  // Uses the database `system`, because `database` may not exist, and `default` may be the target of the rename.
  const server = openClickHouseAt(
    { ...address, database: 'system' },
    { requestTimeoutMs: statementTimeoutMs, settings: dropSettings },
  )

  /**
   * Runs a SELECT on `system.backups`, and repeats the SELECT for up to `unreachableTimeoutMs` while the server can't be reached.
   */
  function readBackups<T>(sql: string, params?: { id: string }): Promise<T[]> {
    return retry(async () => (await server.query<T>(sql, params)).rows, {
      delays: { firstMs: pollMs, longestMs: pollMs },
      timeoutMs: unreachableTimeoutMs,
      isPermanent: (error) => !isRetryable(error),
    })
  }

  /**
   * Runs BACKUP or RESTORE in the background of the server, and waits for its end. The connection may be interrupted.
   */
  async function runToEnd(sql: string): Promise<{ bytes: number }> {
    // Fails before the start if the user has no right to read this table, because the end could then not be detected.
    await readBackups('SELECT 1 FROM system.backups LIMIT 0')
    const { rows } = await server.query<{ id: string }>(`${sql} ASYNC`)
    const id = rows[0]?.id ?? ''
    for (;;) {
      const [state] = await readBackups<{ status: string; error: string; bytes: number }>(
        'SELECT toString(status) AS status, error, total_size AS bytes FROM system.backups WHERE id = {id:String}',
        { id },
      )
      if (state === undefined) throw new Error('ClickHouse was restarted meanwhile. Run the command again.')
      if (state.status === 'BACKUP_CREATED' || state.status === 'RESTORED') return { bytes: state.bytes }
      if (state.error !== '' || /FAILED|CANCELLED/.test(state.status)) {
        // ClickHouse's stack traces don't help an operator who restores a backup.
        throw new Error(`ClickHouse: ${state.error.replace(/,? Stack trace[\s\S]*/, '') || state.status}`)
      }
      await sleep(pollMs)
    }
  }

  // A restore that was killed while it loaded a table again has left that table detached.
  const dropStaged = (): Promise<void> =>
    server.command(`DROP DATABASE IF EXISTS ${staging} SYNC`, {
      settings: { force_remove_data_recursively_on_drop: 1 },
    })

  /** The restored tables that have parts. */
  async function stagedTables(): Promise<string[]> {
    const { rows } = await server.query<{ name: string }>(
      `SELECT name FROM system.tables WHERE database = {staging:String} AND engine LIKE '%MergeTree'`,
      { staging },
    )
    return rows.map(({ name }) => name)
  }

  /**
   * Loads the restored tables again. A restored part keeps the number of its last mutation, but the numbers of the table
   * begin at 1, and ClickHouse applies no mutation with a lower number: neither an erasure nor an expiry would delete
   * anything (https://github.com/ClickHouse/ClickHouse/pull/109686). A table that is loaded continues after its parts.
   */
  async function reloadStaged(): Promise<void> {
    for (const name of await stagedTables()) {
      await server.command(`DETACH TABLE ${staging}.${name} SYNC`)
      await server.command(`ATTACH TABLE ${staging}.${name}`)
    }
  }

  /**
   * Reads all parts. A broken projection is created again from its part, and is no damage: ClickHouse does not fsync
   * projections (https://github.com/ClickHouse/ClickHouse/issues/111318), and reads the part without it.
   */
  async function checkStaged(): Promise<void> {
    for (const name of await stagedTables()) {
      let messages = await failedChecks(name)
      if (messages.some(isBrokenProjection)) {
        const steps = projections.map((projection) => `MATERIALIZE PROJECTION IF EXISTS ${projection}`)
        await server.command(`ALTER TABLE ${staging}.${name} ${steps.join(', ')} SETTINGS mutations_sync = 2`)
        messages = await failedChecks(name)
      }
      if (!messages.every(isBrokenProjection)) throw new Error(`The table ${name} of the backup is damaged.`)
    }
  }

  async function failedChecks(name: string): Promise<string[]> {
    const { rows } = await server.query<{ is_passed: number; message: string }>(
      `CHECK TABLE ${staging}.${name} SETTINGS check_query_single_value_result = 0`,
    )
    return rows.filter(({ is_passed }) => is_passed !== 1).map(({ message }) => message)
  }

  async function isEmpty(): Promise<boolean> {
    const { rows } = await server.query('SELECT 1 FROM system.tables WHERE database = {database:String} LIMIT 1', {
      database,
    })
    return rows.length === 0
  }

  return {
    // Fails on a server that is not the only one of its store, because a shard without the others is not a backup.
    storeId: () => readStoreId(clickHouse),
    appliedMigrations: () => appliedClickHouseMigrations(clickHouse),
    backUp: (location: BackupLocation, base: BackupLocation | undefined) =>
      runToEnd(
        `BACKUP DATABASE ${database} TO ${locationSql(location, credentials)} SETTINGS ${projectionSettings}` +
          (base === undefined ? '' : `, base_backup = ${locationSql(base, credentials)}`),
      ),
    isEmpty,
    stage: async (
      location: BackupLocation,
      expected: { database: string; storeId: string; shard: number; shards: number },
    ): Promise<void> => {
      await runToEnd(`RESTORE DATABASE ${expected.database} AS ${staging} FROM ${locationSql(location, credentials)}`)
      await reloadStaged()
      await checkStaged()
      const { storeId, shard, shards } = expected
      // A backup of a single server may be older than these columns.
      const columns = shards === 1 ? '' : ', shard, shards'
      const { rows } = await server.query<{ id: string; shard?: number; shards?: number }>(
        `SELECT DISTINCT toString(id) AS id${columns} FROM ${staging}.store`,
      )
      const [store] = rows
      if (rows.length !== 1 || store?.id !== storeId) {
        throw new Error('ClickHouse has the backup of another store at that place.')
      }
      if (shards > 1 && (store.shard !== shard || store.shards !== shards)) {
        throw new Error(`ClickHouse ${origin} has the backup of another shard at that place.`)
      }
    },
    eraseStaged: async (erasures: readonly ErasedRows[]): Promise<void> => {
      const eraser = openEventEraserAt({ ...address, database: staging })
      try {
        for (const erased of erasures) await eraser.storeTombstone(erased)
        for (let from = 0; from < erasures.length; from += erasuresPerDelete) {
          await eraser.startDelete(erasures.slice(from, from + erasuresPerDelete))
          while (await eraser.isDeleting()) await sleep(pollMs)
        }
        for (const erased of erasures) {
          const left = await eraser.count(erased)
          if (left.events + left.users > 0) throw new Error(`The erasure ${erased.erasureId} could not be repeated.`)
        }
      } finally {
        await eraser.close()
      }
    },
    publishStaged: async (): Promise<void> => {
      await server.command(`DROP DATABASE IF EXISTS ${database} SYNC`)
      await server.command(`RENAME DATABASE ${staging} TO ${database}`)
      await recordServer(clickHouse)
    },
    dropStaged,
    close: async (): Promise<void> => {
      await clickHouse.close()
      await server.close()
    },
  }
}

function locationSql(location: BackupLocation, credentials: BackupCredentials | undefined): string {
  if (location.kind === 'disk') return `Disk(${quoted(location.disk)}, ${quoted(location.name)})`
  const parts = [location.url, ...(credentials ? [credentials.accessKeyId, credentials.secretAccessKey] : [])]
  return `S3(${parts.map(quoted).join(', ')})`
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
