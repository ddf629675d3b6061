import { type Selectable, sql } from 'kysely'
import type { KeyChanges, KeyRecord, KeyStore } from '@sluice/access/keys'
import type { SiteIds } from '@sluice/contracts/scopes'
import { isChangedSince, readChangeCursor } from './changes.ts'
import type { Postgres } from './open.ts'
import { requirePageSize, selectPage } from './page.ts'
import { registerNamed } from './sites.ts'
import type { Db, Tables } from './tables.ts'
import { toDate } from './time.ts'

/** `last_used_at` is written at most every 20 s, so that it lags the last use by less than a minute. */
const staleAfter = sql`interval '20 seconds'`

/** The API keys of this Postgres. */
export function keyStore(postgres: Postgres): KeyStore {
  return {
    create: (key, makerId) =>
      postgres.transaction(async (transaction) => {
        const row = await transaction
          .insertInto('api_keys')
          .values({
            key_id: key.keyId,
            environment: key.environment,
            hash: key.hash,
            hint: key.hint,
            bootstrap: key.bootstrap,
            ...changeableColumns(key),
          })
          .onConflict((conflict) => conflict.column('hash').doNothing())
          .returningAll()
          .executeTakeFirst()
        if (!row) return undefined
        await registerNamed(transaction, row.site_ids ?? [], makerId)
        return toRecord(row)
      }),
    hasAny: () =>
      postgres.run(
        async (db) => (await db.selectFrom('api_keys').select('key_id').limit(1).executeTakeFirst()) !== undefined,
      ),
    findByHash: (hash) =>
      postgres.run(async (db) => {
        const row = await db.selectFrom('api_keys').selectAll().where('hash', '=', hash).executeTakeFirst()
        return row && toRecord(row)
      }),
    newestAdmin: () =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('api_keys')
          .selectAll()
          .where(sql<boolean>`'admin' = ANY (scopes)`)
          .where('site_ids', 'is', null)
          .where('revoked_at', 'is', null)
          .where(sql<boolean>`coalesce(expires_at > now(), true)`)
          .orderBy('created_at', 'desc')
          .orderBy('key_id', 'desc')
          .limit(1)
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    findByHashes: (hashes) =>
      postgres.run(async (db) => {
        const rows = await db
          .selectFrom('api_keys')
          .selectAll()
          .where('hash', '=', sql<string>`ANY (${[...hashes]}::text[])`)
          .execute()
        return rows.map(toRecord)
      }),
    find: (keyId, siteIds) =>
      postgres.run(async (db) => {
        const row = await selectVisible(db, siteIds).selectAll().where('key_id', '=', keyId).executeTakeFirst()
        return row && toRecord(row)
      }),
    list: (page, siteIds) =>
      postgres.run(async (db) => {
        const newestFirst = selectVisible(db, siteIds)
          .selectAll()
          .orderBy('created_at', 'desc')
          .orderBy('key_id', 'desc')
        const lists = sql`concat(site_ids::text, allowed_origins::text)`.as('document')
        const read = newestFirst.clearSelect().select(lists).limit(page.limit).offset(page.offset)
        await requirePageSize(db, sql`${read}`)
        const { rows, total } = await selectPage(newestFirst, page)
        return { keys: rows.map(toRecord), total }
      }),
    update: (keyId, actor, change) =>
      postgres.transaction(async (transaction) => {
        const row = await lockKey(transaction, keyId, actor.siteIds)
        if (!row) return undefined
        const key = toRecord(row)
        const changes = change(key)
        if (Object.keys(changes).length === 0) return key
        const changed = await transaction
          .updateTable('api_keys')
          .set({ ...changeableColumns({ ...key, ...changes }), changed_at: sql`now()` })
          .where('key_id', '=', keyId)
          .returningAll()
          .executeTakeFirstOrThrow()
        await registerNamed(transaction, changes.siteIds ?? [], actor.keyId)
        return toRecord(changed)
      }),
    rotate: (keyId, siteIds, rotate) =>
      postgres.transaction(async (transaction) => {
        const old = await lockKey(transaction, keyId, siteIds)
        if (!old) return undefined
        const { replacement, oldExpiresAt } = rotate(toRecord(old))
        const row = await transaction
          .insertInto('api_keys')
          .values({
            key_id: replacement.keyId,
            environment: old.environment,
            hash: replacement.hash,
            hint: replacement.hint,
            // `npm run admin-key` revokes the replacement if it would have revoked the old key.
            bootstrap: old.bootstrap,
            ...changeableColumns(toRecord(old)),
          })
          .returningAll()
          .executeTakeFirstOrThrow()
        await transaction
          .updateTable('api_keys')
          .set({
            expires_at: sql`least(expires_at, ${new Date(oldExpiresAt)})`,
            rotated_to: replacement.keyId,
            changed_at: sql`now()`,
          })
          .where('key_id', '=', keyId)
          .execute()
        return toRecord(row)
      }),
    revoke: (keyId, siteIds) =>
      postgres.run(async (db) => {
        const row = await db
          .updateTable('api_keys')
          .set({ revoked_at: sql`coalesce(revoked_at, now())`, changed_at: sql`now()` })
          .where('key_id', 'in', selectVisible(db, siteIds).select('key_id').where('key_id', '=', keyId))
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    revokeBootstrapKeysExcept: (keyId) =>
      postgres.run(async (db) => {
        const revoke = async () => {
          const { numUpdatedRows } = await db
            .updateTable('api_keys')
            .set({ revoked_at: sql`now()`, changed_at: sql`now()` })
            .where('bootstrap', '=', true)
            .where('revoked_at', 'is', null)
            .where('key_id', '!=', keyId)
            .executeTakeFirst()
          return Number(numUpdatedRows)
        }
        let total = 0
        let revoked: number
        do {
          revoked = await revoke()
          total += revoked
          // Repeated: the statement may have waited for a rotation, and did not see the replacement that it has stored.
        } while (revoked > 0)
        return total
      }),
    changedSince: (since) =>
      postgres.run(async (db) => {
        const cursor = await readChangeCursor(db)
        if (since === undefined) return { changed: [], cursor }
        const rows = await db.selectFrom('api_keys').selectAll().where(isChangedSince(since)).execute()
        return { changed: rows.map(toRecord), cursor }
      }),
    markUsed: (lastUsed) =>
      postgres.run(async (db) => {
        const ids = [...lastUsed.keys()]
        const times = Array.from(lastUsed.values(), (at) => new Date(at))
        const { rows } = await sql<{ key_id: string }>`
          WITH stale AS (
            SELECT key_id, at FROM unnest(${ids}::text[], ${times}::timestamptz[]) AS used (key_id, at)
            JOIN api_keys USING (key_id)
            WHERE last_used_at IS NULL OR last_used_at < at - ${staleAfter}
          ), locked AS (
            SELECT key_id, at FROM stale JOIN api_keys USING (key_id) FOR NO KEY UPDATE OF api_keys SKIP LOCKED
          ), written AS (
            UPDATE api_keys SET last_used_at = greatest(last_used_at, locked.at)
            FROM locked WHERE api_keys.key_id = locked.key_id RETURNING api_keys.key_id
          )
          SELECT key_id FROM stale EXCEPT SELECT key_id FROM written`.execute(db)
        return rows.map((row) => row.key_id)
      }),
  }
}

/**
 * Selects the keys that a key bound to `siteIds` may see: the keys that are bound to a subset of these sites. Null: all
 * keys.
 */
function selectVisible(db: Db, siteIds: SiteIds) {
  const keys = db.selectFrom('api_keys')
  return siteIds === null ? keys : keys.where(sql<boolean>`site_ids <@ ${[...siteIds]}::text[]`)
}

/** Locks a key's row until the end of the transaction and returns it; undefined when the key is not visible. */
async function lockKey(
  transaction: Db,
  keyId: string,
  siteIds: SiteIds,
): Promise<Selectable<Tables['api_keys']> | undefined> {
  return selectVisible(transaction, siteIds).selectAll().where('key_id', '=', keyId).forUpdate().executeTakeFirst()
}

/** The columns that users can change. A rotation copies them to the new key. */
function changeableColumns({ name, scopes, siteIds, rateLimits, allowedOrigins, expiresAt }: Required<KeyChanges>) {
  return {
    name,
    scopes: [...scopes],
    site_ids: siteIds === null ? null : [...siteIds],
    rate_limits: rateLimits,
    allowed_origins: allowedOrigins === null ? null : [...allowedOrigins],
    expires_at: toDate(expiresAt),
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
    allowedOrigins: row.allowed_origins,
    hash: row.hash,
    hint: row.hint,
    createdAt: row.created_at.getTime(),
    lastUsedAt: row.last_used_at?.getTime() ?? null,
    expiresAt: row.expires_at?.getTime() ?? null,
    revokedAt: row.revoked_at?.getTime() ?? null,
    rotatedTo: row.rotated_to,
  }
}
