import { setTimeout as pause } from 'node:timers/promises'
import { isRetryable } from '@sluice/runtime/errors'
import { retry } from '@sluice/runtime/retry'
import type { AppliedMigrations } from '@sluice/runtime/schema-versions'
import { openClickHouseAt, parseClickHouseUrl } from './client.ts'
import type { ErasedRows } from './erased-rows.ts'
import { openEventEraserAt } from './event-eraser.ts'
import { appliedClickHouseMigrations } from './migrate.ts'
import { readStoreId, recordServer } from './store-identity.ts'

/** Where ClickHouse itself writes its part of a backup: below a disk of its configuration, or on an S3 server. */
export type BackupPlace = { kind: 'disk'; disk: string; name: string } | { kind: 's3'; url: string }

/** For S3; without them ClickHouse uses those of its own configuration. */
export interface BackupCredentials {
  accessKeyId: string
  secretAccessKey: string
}

/** The ClickHouse of a backup, as an operator's command sees it. Every method throws ClickHouseError. */
export interface StoreBackup {
  database: string
  /** As `EventInserter.storeId`. */
  storeId(): Promise<string>
  appliedMigrations(): Promise<AppliedMigrations>
  /** Backs the database up to `place`; with `base`, only what has changed since that backup, which stays necessary. */
  backUp(place: BackupPlace, base?: BackupPlace): Promise<{ bytes: number }>
  /** Whether the database is missing, or has no tables. */
  isEmpty(): Promise<boolean>
  /**
   * Restores `database` of the backup at `place` beside this one, under a name of its own, and reads all its parts to check
   * them. Rejects, with nothing left of it, when a part of the backup is missing or damaged, and when it is of another store.
   */
  stage(place: BackupPlace, expected: { database: string; storeId: string }): Promise<void>
  /** Deletes what the erasures select from the staged database, and stores their tombstones. */
  eraseStaged(erasures: readonly ErasedRows[]): Promise<void>
  /** Puts the staged database in the place of this one, which must be empty. */
  publishStaged(): Promise<void>
  dropStaged(): Promise<void>
  close(): Promise<void>
}

const pollMs = 500
/** Maximum network interruption during a backup or restore of ClickHouse, which may take hours. */
const awayMsMax = 60_000
/** Erasures of one DELETE: a statement has a limited size. */
const erasuresPerDelete = 100
/** Checking a table reads it whole. */
const noTimeLimit = 24 * 3_600_000

export function openStoreBackup(url: string, credentials?: BackupCredentials): StoreBackup {
  const address = parseClickHouseUrl(url)
  const { database } = address
  const staging = `${database}_restoring`
  const clickHouse = openClickHouseAt(address)
  // `database` may not exist.
  const server = openClickHouseAt({ ...address, database: 'default' }, { requestTimeoutMs: noTimeLimit })

  /** Runs BACKUP or RESTORE in the background of the server, whose connection may be cut meanwhile. */
  async function runToEnd(sql: string): Promise<{ bytes: number }> {
    const { rows } = await server.query<{ id: string }>(`${sql} ASYNC`)
    const id = rows[0]?.id ?? ''
    for (;;) {
      const found = await retry(
        () =>
          server.query<{ status: string; error: string; bytes: number }>(
            'SELECT toString(status) AS status, error, total_size AS bytes FROM system.backups WHERE id = {id:String}',
            { id },
          ),
        {
          delays: { firstMs: pollMs, longestMs: pollMs },
          timeoutMs: awayMsMax,
          isPermanent: (error) => !isRetryable(error),
        },
      )
      const [state] = found.rows
      if (state === undefined) throw new Error('ClickHouse was restarted meanwhile. Run the command again.')
      if (state.status === 'BACKUP_CREATED' || state.status === 'RESTORED') return { bytes: state.bytes }
      if (state.error !== '' || /FAILED|CANCELLED/.test(state.status)) {
        // Its stack traces help nobody who restores.
        throw new Error(`ClickHouse: ${state.error.replace(/,? Stack trace[\s\S]*/, '') || state.status}`)
      }
      await pause(pollMs)
    }
  }

  const dropStaged = (): Promise<void> => server.command(`DROP DATABASE IF EXISTS ${staging} SYNC`)

  async function checkStaged(): Promise<void> {
    const { rows } = await server.query<{ name: string }>(
      `SELECT name FROM system.tables WHERE database = {staging:String} AND engine LIKE '%MergeTree'`,
      { staging },
    )
    for (const { name } of rows) {
      const checked = await server.query<{ result: number }>(
        `CHECK TABLE ${staging}.${name} SETTINGS check_query_single_value_result = 1`,
      )
      if (checked.rows[0]?.result !== 1) throw new Error(`The table ${name} of the backup is damaged.`)
    }
  }

  async function isEmpty(): Promise<boolean> {
    const { rows } = await server.query('SELECT 1 FROM system.tables WHERE database = {database:String} LIMIT 1', {
      database,
    })
    return rows.length === 0
  }

  return {
    database,
    storeId: () => readStoreId(clickHouse),
    appliedMigrations: () => appliedClickHouseMigrations(clickHouse),
    backUp: (place, base) =>
      runToEnd(
        `BACKUP DATABASE ${database} TO ${placeSql(place, credentials)}` +
          (base === undefined ? '' : ` SETTINGS base_backup = ${placeSql(base, credentials)}`),
      ),
    isEmpty,
    stage: async (place, expected) => {
      // A restore that was killed may have left it.
      await dropStaged()
      try {
        await runToEnd(`RESTORE DATABASE ${expected.database} AS ${staging} FROM ${placeSql(place, credentials)}`)
        await checkStaged()
        const { rows } = await server.query<{ id: string }>(`SELECT DISTINCT toString(id) AS id FROM ${staging}.store`)
        if (rows.length !== 1 || rows[0]?.id !== expected.storeId) {
          throw new Error('ClickHouse has the backup of another store at that place.')
        }
      } catch (error) {
        await dropStaged()
        throw error
      }
    },
    eraseStaged: async (erasures) => {
      const eraser = openEventEraserAt({ ...address, database: staging })
      try {
        for (const erased of erasures) await eraser.storeTombstone(erased)
        for (let from = 0; from < erasures.length; from += erasuresPerDelete) {
          await eraser.startDelete(erasures.slice(from, from + erasuresPerDelete))
          while (await eraser.isDeleting()) await pause(pollMs)
        }
        for (const erased of erasures) {
          const left = await eraser.count(erased)
          if (left.events + left.users > 0) throw new Error(`The erasure ${erased.erasureId} could not be repeated.`)
        }
      } finally {
        await eraser.close()
      }
    },
    publishStaged: async () => {
      if (!(await isEmpty())) throw new Error(`The ClickHouse database ${database} was filled meanwhile.`)
      await server.command(`DROP DATABASE IF EXISTS ${database} SYNC`)
      await server.command(`RENAME DATABASE ${staging} TO ${database}`)
      await recordServer(clickHouse)
    },
    dropStaged,
    close: async () => {
      await clickHouse.close()
      await server.close()
    },
  }
}

function placeSql(place: BackupPlace, credentials: BackupCredentials | undefined): string {
  if (place.kind === 'disk') return `Disk(${quoted(place.disk)}, ${quoted(place.name)})`
  const parts = [place.url, ...(credentials ? [credentials.accessKeyId, credentials.secretAccessKey] : [])]
  return `S3(${parts.map(quoted).join(', ')})`
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
