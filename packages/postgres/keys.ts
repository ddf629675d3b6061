import type { Environment, Scope } from '@sluice/contracts/scopes'
import { type Selectable, sql } from 'kysely'
import type { Postgres } from './open.ts'
import type { Tables } from './tables.ts'

/** A key's record (contract section 2), without the key: only its SHA-256 is kept. */
export interface KeyRecord {
  keyId: string
  name: string
  environment: Environment
  scopes: readonly Scope[]
  hash: string
  hint: string
  createdAt: Date
  lastUsedAt: Date | null
  expiresAt: Date | null
  revokedAt: Date | null
}

export interface NewKey {
  keyId: string
  name: string
  environment: Environment
  scopes: readonly Scope[]
  hash: string
  hint: string
  expiresAt: Date | null
  bootstrap: boolean
}

/** API keys in Postgres. Every method throws SluiceError 503 while Postgres is away. */
export interface KeyStore {
  /** Stores a new key. A hash that is there already stays as it is: then undefined. */
  create(key: NewKey): Promise<KeyRecord | undefined>
  /** True once any key was ever made, revoked ones included. */
  any(): Promise<boolean>
  findByHash(hash: string): Promise<KeyRecord | undefined>
  find(keyId: string): Promise<KeyRecord | undefined>
  /** Newest first. */
  list(page: { limit: number; offset: number }): Promise<{ keys: KeyRecord[]; total: number }>
  /** Revokes a key; its record with the time of its first revocation, or undefined for an unknown id. */
  revoke(keyId: string): Promise<KeyRecord | undefined>
  /** Revokes every other key that a start or `npm run admin-key` made; returns how many. */
  revokeBootstrapKeysExcept(keyId: string): Promise<number>
  /** Keys whose rights changed at or after `since`, by Postgres's clock; `asOf` is the next call's `since`. */
  changedSince(since: Date | undefined): Promise<{ keys: KeyRecord[]; asOf: Date }>
  /** Moves `last_used_at` forward, never back. */
  markUsed(lastUsed: ReadonlyMap<string, Date>): Promise<void>
}

/** Statements may commit this much later than the `changed_at` that they carry; each poll looks back so far. */
const pollOverlap = sql`interval '10 seconds'`

export function keyStore(postgres: Postgres): KeyStore {
  return {
    create: (key) =>
      postgres.run(async (db) => {
        const row = await db
          .insertInto('api_keys')
          .values({
            key_id: key.keyId,
            name: key.name,
            environment: key.environment,
            scopes: [...key.scopes],
            hash: key.hash,
            hint: key.hint,
            expires_at: key.expiresAt,
            bootstrap: key.bootstrap,
          })
          .onConflict((conflict) => conflict.column('hash').doNothing())
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    any: () =>
      postgres.run(
        async (db) => (await db.selectFrom('api_keys').select('key_id').limit(1).executeTakeFirst()) !== undefined,
      ),
    findByHash: (hash) =>
      postgres.run(async (db) => {
        const row = await db.selectFrom('api_keys').selectAll().where('hash', '=', hash).executeTakeFirst()
        return row && toRecord(row)
      }),
    find: (keyId) =>
      postgres.run(async (db) => {
        const row = await db.selectFrom('api_keys').selectAll().where('key_id', '=', keyId).executeTakeFirst()
        return row && toRecord(row)
      }),
    list: ({ limit, offset }) =>
      postgres.run(async (db) => {
        const rows = await db
          .selectFrom('api_keys')
          .selectAll()
          .orderBy('created_at', 'desc')
          .orderBy('key_id', 'desc')
          .limit(limit)
          .offset(offset)
          .execute()
        const { total } = await db
          .selectFrom('api_keys')
          .select((select) => select.fn.countAll<string>().as('total'))
          .executeTakeFirstOrThrow()
        return { keys: rows.map(toRecord), total: Number(total) }
      }),
    revoke: (keyId) =>
      postgres.run(async (db) => {
        const row = await db
          .updateTable('api_keys')
          .set({ revoked_at: sql`coalesce(revoked_at, now())`, changed_at: sql`now()` })
          .where('key_id', '=', keyId)
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    revokeBootstrapKeysExcept: (keyId) =>
      postgres.run(async (db) => {
        const { numUpdatedRows } = await db
          .updateTable('api_keys')
          .set({ revoked_at: sql`now()`, changed_at: sql`now()` })
          .where('bootstrap', '=', true)
          .where('revoked_at', 'is', null)
          .where('key_id', '!=', keyId)
          .executeTakeFirst()
        return Number(numUpdatedRows)
      }),
    changedSince: (since) =>
      postgres.run(async (db) => {
        const { asOf } = await db.selectNoFrom(sql<Date>`now()`.as('asOf')).executeTakeFirstOrThrow()
        if (since === undefined) return { keys: [], asOf }
        const rows = await db
          .selectFrom('api_keys')
          .selectAll()
          .where('changed_at', '>=', sql<Date>`${since}::timestamptz - ${pollOverlap}`)
          .execute()
        return { keys: rows.map(toRecord), asOf }
      }),
    markUsed: (lastUsed) =>
      postgres.run(async (db) => {
        const ids = [...lastUsed.keys()]
        const times = [...lastUsed.values()]
        // Locked in one order: two processes that use the same keys would wait for each other for ever.
        await sql`
          WITH used AS (
            SELECT key_id, at FROM unnest(${ids}::text[], ${times}::timestamptz[]) AS used (key_id, at)
            JOIN api_keys USING (key_id)
            ORDER BY key_id FOR NO KEY UPDATE OF api_keys
          )
          UPDATE api_keys SET last_used_at = greatest(last_used_at, used.at)
          FROM used WHERE api_keys.key_id = used.key_id`.execute(db)
      }),
  }
}

function toRecord(row: Selectable<Tables['api_keys']>): KeyRecord {
  return {
    keyId: row.key_id,
    name: row.name,
    environment: row.environment,
    scopes: row.scopes,
    hash: row.hash,
    hint: row.hint,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
  }
}
