import { userFileColumns } from '@sluice/contracts/import-columns'
import type { Environment } from '@sluice/contracts/scopes'
import type { ClickHouse } from '../clickhouse/client.ts'
import type { ExternalTableQuery } from '../clickhouse/external-table.ts'
import { isNotErased, tombstonesSql } from '../erasures/tombstones.ts'
import { ownStoreCondition, storeParameters, type StoreTarget } from '../store-identity.ts'
import { timeSql } from '../time-sql.ts'

const texts = ['site_id', 'environment', ...userFileColumns] as const

/** The columns of the table `users`. */
export const userColumns = [...texts, 'imported_at', 'version'].join(', ')

/**
 * A user's record to store. It replaces the records of lower versions. An empty text is stored too: it clears the
 * field.
 */
export interface UserRow extends Record<(typeof texts)[number], string> {
  environment: Environment
  /** Unix ms. */
  imported_at: number
  /** A UInt64 in decimal; see `userVersion`. */
  version: string
}

/** Greater than the number of records in a file. */
const recordsPerImport = 2n ** 34n

/**
 * The version of the row for record `number` of the import `seq`, which is a sequence number in the order of creation.
 * The record of the later import wins, and within a file the last record, independent of the order and number of
 * inserts.
 */
export function userVersion(seq: number, number: number): string {
  return String(BigInt(seq) * recordsPerImport + BigInt(number))
}

/** The highest `seq` of the imports whose records of users a server holds; 0: none. Throws ClickHouseError. */
export async function lastImportOfUsers(clickHouse: Pick<ClickHouse, 'query'>): Promise<number> {
  const { rows } = await clickHouse.query<{ last: number }>(
    `SELECT toUInt32(intDiv(max(version), ${recordsPerImport})) AS last FROM users`,
  )
  return rows[0]?.last ?? 0
}

/** A record of a user has no timestamp, so a tombstone of the kind `before` does not select it. */
const isKept = isNotErased(['site', 'user_id'], { receivedAt: 'b.imported_at', timestamp: '9223372036854775806' })

/** The insert of users, which are posted as JSON lines of `UserRow`. */
export function insertUsersStatement(
  store: StoreTarget,
): Pick<ExternalTableQuery, 'sql' | 'params' | 'structure' | 'settings'> {
  return {
    sql: `
INSERT INTO users (${userColumns})
WITH ${tombstonesSql('imported_at')} AS tombstones
SELECT ${texts.join(', ')}, ${timeSql('b.imported_at')} AS imported_at, version FROM b
WHERE ${ownStoreCondition(store)} AND ${isKept}`,
    structure: [...texts.map((name) => `${name} String`), 'imported_at Int64', 'version UInt64'].join(', '),
    params: storeParameters(store),
    settings: {
      async_insert: '0',
      // With a deduplication token from a settings profile, ClickHouse would take every insert for a repeat of the
      // first one. Copies have the same version.
      insert_deduplicate: '0',
      insert_deduplication_token: '',
    },
  }
}
