import type { RateLimits } from '@sluice/contracts/limits'
import type { Environment, Scope } from '@sluice/contracts/scopes'
import { type Kysely, type Selectable, sql } from 'kysely'
import type { Postgres } from './open.ts'
import { pollOverlap } from './poll-overlap.ts'
import { registerNamed } from './sites.ts'
import type { Tables } from './tables.ts'

/** A key's record (contract section 2), without the key: only its SHA-256 is kept. */
export interface KeyRecord {
  keyId: string
  name: string
  environment: Environment
  scopes: readonly Scope[]
  /** The sites that it may name; null: every one. */
  siteIds: readonly string[] | null
  rateLimits: RateLimits | null
  hash: string
  hint: string
  createdAt: Date
  lastUsedAt: Date | null
  expiresAt: Date | null
  revokedAt: Date | null
  /** Id of the key that replaces it; null: it was not rotated. */
  rotatedTo: string | null
}

export interface NewKey extends Omit<KeyRecord, 'createdAt' | 'lastUsedAt' | 'revokedAt' | 'rotatedTo'> {
  /** Made by a start or `npm run admin-key`, which replaces all such keys. */
  bootstrap: boolean
}

/** What may change of a key. */
export type KeyChanges = Partial<Pick<KeyRecord, 'name' | 'scopes' | 'siteIds' | 'rateLimits' | 'expiresAt'>>

/** What a rotation makes of a key. */
export interface Rotation {
  /** The new key; it has everything else from the old one. */
  replacement: Pick<KeyRecord, 'keyId' | 'hash' | 'hint'>
  /** When the old one expires, unless it does so before. */
  oldExpiresAt: Date
}

/** The key that asks: new sites are registered in its name, and keys of other sites than its own are absent for it. */
export interface Asker {
  keyId: string
  /** Null: it is not bound to sites. */
  siteIds: readonly string[] | null
}

/** API keys in Postgres. Every method throws SluiceError 503 while Postgres is away. */
export interface KeyStore {
  /**
   * Stores a new key, and registers the sites that it names in the name of `makerId` (null: a start). A hash that is
   * there already stays as it is: then undefined.
   */
  create(key: NewKey, makerId: string | null): Promise<KeyRecord | undefined>
  /** True once any key was ever made, revoked ones included. */
  any(): Promise<boolean>
  findByHash(hash: string): Promise<KeyRecord | undefined>
  /** Undefined for an unknown id, and for a key that is not bound, or to other sites than `siteIds` (null: all). */
  find(keyId: string, siteIds: Asker['siteIds']): Promise<KeyRecord | undefined>
  /** Newest first; those alone that `find` would find. */
  list(
    page: { limit: number; offset: number },
    siteIds: Asker['siteIds'],
  ): Promise<{ keys: KeyRecord[]; total: number }>
  /**
   * Changes a key. `change` is given the key as it is, which nobody else changes meanwhile, and says what is to become
   * of it; what it throws is passed on, and nothing has changed. Undefined where `find` finds nothing.
   */
  update(keyId: string, asker: Asker, change: (key: KeyRecord) => KeyChanges): Promise<KeyRecord | undefined>
  /**
   * Makes a key with the same grants and lets the old one expire, both or none; returns the new one. `rotate` is called
   * as `change` of `update` is.
   */
  rotate(keyId: string, siteIds: Asker['siteIds'], rotate: (key: KeyRecord) => Rotation): Promise<KeyRecord | undefined>
  /** Revokes a key; its record with the time of its first revocation. Undefined where `find` finds nothing. */
  revoke(keyId: string, siteIds: Asker['siteIds']): Promise<KeyRecord | undefined>
  /** Revokes every other key that a start or `npm run admin-key` made; returns how many. */
  revokeBootstrapKeysExcept(keyId: string): Promise<number>
  /** Keys whose rights changed at or after `since`, by Postgres's clock; `asOf` is the next call's `since`. */
  changedSince(since: Date | undefined): Promise<{ keys: KeyRecord[]; asOf: Date }>
  /** Moves `last_used_at` forward, never back. */
  markUsed(lastUsed: ReadonlyMap<string, Date>): Promise<void>
}

type Db = Kysely<Tables>

export function keyStore(postgres: Postgres): KeyStore {
  return {
    create: (key, makerId) =>
      postgres.run((db) =>
        db.transaction().execute(async (transaction) => {
          const row = await transaction
            .insertInto('api_keys')
            .values({
              key_id: key.keyId,
              environment: key.environment,
              hash: key.hash,
              hint: key.hint,
              bootstrap: key.bootstrap,
              ...grantsOf(key),
            })
            .onConflict((conflict) => conflict.column('hash').doNothing())
            .returningAll()
            .executeTakeFirst()
          if (!row) return undefined
          await registerNamed(transaction, row.site_ids ?? [], makerId)
          return toRecord(row)
        }),
      ),
    any: () =>
      postgres.run(
        async (db) => (await db.selectFrom('api_keys').select('key_id').limit(1).executeTakeFirst()) !== undefined,
      ),
    findByHash: (hash) =>
      postgres.run(async (db) => {
        const row = await db.selectFrom('api_keys').selectAll().where('hash', '=', hash).executeTakeFirst()
        return row && toRecord(row)
      }),
    find: (keyId, siteIds) =>
      postgres.run(async (db) => {
        const row = await visible(db, siteIds).selectAll().where('key_id', '=', keyId).executeTakeFirst()
        return row && toRecord(row)
      }),
    list: ({ limit, offset }, siteIds) =>
      postgres.run(async (db) => {
        const rows = await visible(db, siteIds)
          .selectAll()
          .orderBy('created_at', 'desc')
          .orderBy('key_id', 'desc')
          .limit(limit)
          .offset(offset)
          .execute()
        const { total } = await visible(db, siteIds)
          .select((select) => select.fn.countAll<string>().as('total'))
          .executeTakeFirstOrThrow()
        return { keys: rows.map(toRecord), total: Number(total) }
      }),
    update: (keyId, asker, change) =>
      postgres.run((db) =>
        db.transaction().execute(async (transaction) => {
          const row = await locked(transaction, keyId, asker.siteIds)
          if (!row) return undefined
          const key = toRecord(row)
          const changes = change(key)
          if (Object.keys(changes).length === 0) return key
          const changed = await transaction
            .updateTable('api_keys')
            .set({ ...grantsOf({ ...key, ...changes }), changed_at: sql`now()` })
            .where('key_id', '=', keyId)
            .returningAll()
            .executeTakeFirstOrThrow()
          await registerNamed(transaction, changes.siteIds ?? [], asker.keyId)
          return toRecord(changed)
        }),
      ),
    rotate: (keyId, siteIds, rotate) =>
      postgres.run((db) =>
        db.transaction().execute(async (transaction) => {
          const old = await locked(transaction, keyId, siteIds)
          if (!old) return undefined
          const { replacement, oldExpiresAt } = rotate(toRecord(old))
          const row = await transaction
            .insertInto('api_keys')
            .values({
              key_id: replacement.keyId,
              environment: old.environment,
              hash: replacement.hash,
              hint: replacement.hint,
              // What replaces a key that a start made is replaced by `npm run admin-key` as that was.
              bootstrap: old.bootstrap,
              ...grantsOf(toRecord(old)),
            })
            .returningAll()
            .executeTakeFirstOrThrow()
          await transaction
            .updateTable('api_keys')
            .set({
              expires_at: sql`least(expires_at, ${oldExpiresAt})`,
              rotated_to: replacement.keyId,
              changed_at: sql`now()`,
            })
            .where('key_id', '=', keyId)
            .execute()
          return toRecord(row)
        }),
      ),
    revoke: (keyId, siteIds) =>
      postgres.run(async (db) => {
        const row = await db
          .updateTable('api_keys')
          .set({ revoked_at: sql`coalesce(revoked_at, now())`, changed_at: sql`now()` })
          .where('key_id', 'in', visible(db, siteIds).select('key_id').where('key_id', '=', keyId))
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

/** The keys that one who is bound to `siteIds` (null: to none) may see: those that may do nothing on other sites. */
function visible(db: Db, siteIds: Asker['siteIds']) {
  const keys = db.selectFrom('api_keys')
  return siteIds === null ? keys : keys.where(sql<boolean>`site_ids <@ ${[...siteIds]}::text[]`)
}

/** The key's row, which nobody else changes until the end of the transaction. */
async function locked(
  transaction: Db,
  keyId: string,
  siteIds: Asker['siteIds'],
): Promise<Selectable<Tables['api_keys']> | undefined> {
  return visible(transaction, siteIds).selectAll().where('key_id', '=', keyId).forUpdate().executeTakeFirst()
}

/** The columns of what may change, and of what a rotation passes on. */
function grantsOf({ name, scopes, siteIds, rateLimits, expiresAt }: Required<KeyChanges>) {
  return {
    name,
    scopes: [...scopes],
    site_ids: siteIds === null ? null : [...siteIds],
    rate_limits: rateLimits,
    expires_at: expiresAt,
  }
}

function toRecord(row: Selectable<Tables['api_keys']>): KeyRecord {
  return {
    keyId: row.key_id,
    name: row.name,
    environment: row.environment,
    scopes: row.scopes,
    siteIds: row.site_ids,
    rateLimits: row.rate_limits,
    hash: row.hash,
    hint: row.hint,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    rotatedTo: row.rotated_to,
  }
}
