import type { Environment } from '@sluice/contracts/scopes'
import type { ExternalTableQuery } from '../external-table.ts'
import { ownServerCondition, ownShardCondition, storeParameters, type StoreTarget } from '../store-identity.ts'
import { isNotErased, tombstonesSql } from '../tombstones.ts'

/** A user's record to store, in place of the ones of lower versions. Empty texts are stored too: they clear a field. */
export interface UserRow {
  site_id: string
  environment: Environment
  user_id: string
  email: string
  name: string
  company: string
  plan: string
  /** Unix ms. */
  imported_at: number
  /** A UInt64 in decimal; see `userVersion`. */
  version: string
}

/** Records of a file; the file has fewer. */
const recordsPerImport = 2n ** 34n

/**
 * The version of the row that record `number` of the import `seq` (the order of creation) makes. Of two imports the
 * later one counts, in a file the last record, in whatever order they are stored and however often.
 */
export function userVersion(seq: number, number: number): string {
  return String(BigInt(seq) * recordsPerImport + BigInt(number))
}

/** Records of users have no time of their own: a tombstone `before` a moment does not concern them. */
const isKept = isNotErased(['site', 'user_id'], { receivedAt: 'b.imported_at', timestamp: '9223372036854775806' })

const texts = ['site_id', 'environment', 'user_id', 'email', 'name', 'company', 'plan'] as const

/** The insert of users, which are posted as JSON lines of `UserRow`. */
export function insertUsersStatement(
  store: StoreTarget,
): Pick<ExternalTableQuery, 'sql' | 'params' | 'structure' | 'settings'> {
  const columns = texts.join(', ')
  return {
    sql: `
INSERT INTO users (${columns}, imported_at, version)
WITH ${tombstonesSql('imported_at')} AS tombstones
SELECT ${columns}, fromUnixTimestamp64Milli(b.imported_at, 'UTC') AS imported_at, version FROM b
WHERE ${store.position === undefined ? ownServerCondition : ownShardCondition} AND ${isKept}`,
    structure: [...texts.map((name) => `${name} String`), 'imported_at Int64', 'version UInt64'].join(', '),
    params: storeParameters(store),
    settings: {
      async_insert: '0',
      // A profile's token would make ClickHouse take every insert for the first one. Copies have the same version.
      insert_deduplicate: '0',
      insert_deduplication_token: '',
    },
  }
}
