import { type Selectable, sql } from 'kysely'
import type { Registration, SiteRecord, SiteStore } from '@sluice/access/sites'
import { eventLimits } from '@sluice/contracts/event-limits'
import { notFound } from '@sluice/runtime/errors'
import { takeAdvisoryLock } from './advisory-lock.ts'
import { isChangedSince, readChangeCursor } from './changes.ts'
import type { Postgres } from './open.ts'
import { selectPage } from './page.ts'
import type { Db, Tables } from './tables.ts'
import { visibleSiteCondition } from './visible-sites.ts'

/** A process that is suspended while it holds the lock must not delay others for longer. They try again later. */
const lockTimeoutMs = 400
/** The default of the column. */
const timezoneDefault = 'UTC'

/** The sites of this Postgres. */
export function siteStore(postgres: Postgres): SiteStore {
  return {
    find: (siteId) =>
      postgres.run(async (db) => {
        const row = await db.selectFrom('sites').selectAll().where('site_id', '=', siteId).executeTakeFirst()
        return row && toRecord(row)
      }),
    list: (page, siteIds) =>
      postgres.run(async (db) => {
        const byId = db
          .selectFrom('sites')
          .selectAll()
          .where(visibleSiteCondition(siteIds))
          .orderBy(sql`site_id COLLATE "C"`)
        const { rows, total } = await selectPage(byId, page)
        return { sites: rows.map(toRecord), total }
      }),
    create: (siteId, { name, timezone, conversion_event, retention_days }, keyId) =>
      postgres.run(async (db) => {
        const row = await db
          .insertInto('sites')
          // Columns that are undefined are left out.
          .values({
            site_id: siteId,
            name,
            timezone,
            conversion_event,
            retention_days,
            registered_by: keyId,
            changed_at: sql`now()`,
          })
          .onConflict((conflict) => conflict.doNothing())
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    findCreated: (siteId, settings, keyId) =>
      postgres.run(async (db) => {
        const { name = null, timezone = timezoneDefault, conversion_event = null, retention_days = null } = settings
        const row = await db
          .selectFrom('sites')
          .selectAll()
          .where('site_id', '=', siteId)
          .where('registered_by', '=', keyId)
          // If a row was not changed, both of its times are that of the statement that inserted it.
          .where(
            sql<boolean>`
              (name, timezone, conversion_event, retention_days) IS NOT DISTINCT FROM
                (${name}::text, ${timezone}::text, ${conversion_event}::text, ${retention_days}::int)
              AND changed_at = created_at AND created_at > now() - interval '1 minute'`,
          )
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    update: (siteId, { name, timezone, conversion_event, retention_days }) =>
      postgres.run(async (db) => {
        const row = await db
          .updateTable('sites')
          .set({ name, timezone, conversion_event, retention_days, changed_at: sql`now()` })
          .where('site_id', '=', siteId)
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    register: (siteIds) =>
      postgres.run(async (db) => {
        await insertNew(db, siteIds, null)
      }),
    registerFor: (keyId, siteIds) =>
      postgres.run(async (db) => {
        const known = await findRegistered(db, siteIds)
        const unknown = [...new Set(siteIds)].filter((siteId) => !known.has(siteId))
        const retentionDays = new Map<string, number>()
        for (const [siteId, days] of known) if (days !== null) retentionDays.set(siteId, days)
        if (unknown.length === 0) return { refused: [], retryAfterSeconds: 0, retentionDays }
        // A key that has reached its limit is refused without a lock, so that its requests do not wait for each other.
        const { remaining, retryAfterSeconds } = await registrationQuota(db, keyId)
        if (remaining === 0) {
          // The call that reached the limit may have registered these sites.
          const since = await findRegistered(db, unknown)
          return { refused: unknown.filter((siteId) => !since.has(siteId)), retryAfterSeconds, retentionDays }
        }
        const refusal = await db.transaction().execute((transaction) => registerUpToLimit(transaction, keyId, unknown))
        return { ...refusal, retentionDays }
      }),
    listRetention: () =>
      postgres.run(async (db) => {
        const rows = await db
          .selectFrom('sites')
          .select(['site_id', 'retention_days'])
          .where('retention_days', 'is not', null)
          .orderBy('site_id')
          .execute()
        return rows.map(({ site_id, retention_days }) => ({ siteId: site_id, retentionDays: retention_days ?? 0 }))
      }),
    findRegistered: (siteIds) => postgres.run((db) => findRegistered(db, siteIds)),
    changedSince: (since) =>
      postgres.run(async (db) => {
        const cursor = await readChangeCursor(db)
        if (since === undefined) return { changed: [], deleted: [], cursor }
        const rows = await db
          .selectFrom('sites')
          .select(['site_id', 'retention_days'])
          .where(isChangedSince(since))
          .execute()
        const deletions = await db
          .selectFrom('erasures')
          .select('site_id')
          .where('kind', '=', 'site')
          .where(isChangedSince(since, 'created_xid'))
          .execute()
        return {
          changed: rows.map((row) => ({ siteId: row.site_id, retentionDays: row.retention_days })),
          deleted: deletions.map((row) => row.site_id),
          cursor,
        }
      }),
  }
}

/**
 * Registers sites that an administrator names, without a limit. `keyId` is stored as the key that registered them
 * (null: none). Call it in the transaction that stores the record which names the sites.
 */
export async function registerNamed(db: Db, siteIds: readonly string[], keyId: string | null): Promise<void> {
  await insertNew(db, siteIds, keyId, sql`now()`)
}

/**
 * Prevents the deletion of a site until the end of the transaction, which must store a record of the site. Waits for a
 * deletion that runs. Throws AppError `not_found` for a deleted site. Call it before any other lock is taken.
 */
export async function lockSite(transaction: Db, siteId: string): Promise<void> {
  const { rows } = await sql`SELECT FROM sites WHERE site_id = ${siteId} FOR KEY SHARE`.execute(transaction)
  if (rows.length > 0) return
  const deletion = await transaction
    .selectFrom('erasures')
    .select('erasure_id')
    .where('site_id', '=', siteId)
    .where('kind', '=', 'site')
    .limit(1)
    .executeTakeFirst()
  if (deletion !== undefined) throw notFound('Site')
}

/**
 * Inserts the sites first, and then deletes those above the limit, because only the insert shows which sites are new.
 */
async function registerUpToLimit(
  db: Db,
  keyId: string,
  siteIds: readonly string[],
): Promise<Omit<Registration, 'retentionDays'>> {
  await sql`SELECT set_config('lock_timeout', ${String(lockTimeoutMs)}, true)`.execute(db)
  // The lock of the key: no other transaction changes the key's count until this one ends.
  await takeAdvisoryLock(db, 'registration', keyId)
  const { remaining } = await registrationQuota(db, keyId)
  const inserted = await insertNew(db, siteIds, keyId)
  const refused = siteIds.filter((siteId) => inserted.has(siteId)).slice(remaining)
  if (refused.length === 0) return { refused, retryAfterSeconds: 0 }
  await sql`DELETE FROM sites WHERE site_id = ANY (${refused}::text[])`.execute(db)
  const { retryAfterSeconds } = await registrationQuota(db, keyId)
  return { refused, retryAfterSeconds }
}

/** Returns those of the sites that are registered, with the days for which their events are kept (null: for ever). */
async function findRegistered(db: Db, siteIds: readonly string[]): Promise<Map<string, number | null>> {
  const { rows } = await sql<{ site_id: string; retention_days: number | null }>`
    SELECT site_id, retention_days FROM sites WHERE site_id = ANY (${[...siteIds]}::text[])`.execute(db)
  return new Map(rows.map(({ site_id, retention_days }) => [site_id, retention_days]))
}

/** Inserts the sites that are not registered, and returns them. Registered sites are not changed. */
async function insertNew(
  db: Db,
  siteIds: readonly string[],
  keyId: string | null,
  changedAt = sql`NULL`,
): Promise<Set<string>> {
  if (siteIds.length === 0) return new Set()
  // Sorted, because transactions that lock the same rows in different orders can deadlock.
  const sorted = [...new Set(siteIds)].sort()
  const { rows } = await sql<{ site_id: string }>`
    INSERT INTO sites (site_id, registered_by, changed_at)
    SELECT site_id, ${keyId}::text, ${changedAt} FROM unnest(${sorted}::text[]) AS new (site_id)
    ON CONFLICT DO NOTHING RETURNING site_id`.execute(db)
  return new Set(rows.map(({ site_id }) => site_id))
}

/** Returns how many sites a key may register now, and the seconds until it may register one more. */
async function registrationQuota(db: Db, keyId: string): Promise<{ remaining: number; retryAfterSeconds: number }> {
  const max = eventLimits.newSitesPerDayMax
  // Sites that an administrator named count too. The key may register a further site when only 999 of its sites are
  // less than a day old.
  const { rows } = await sql<{ registered: number; seconds: number | null }>`
    WITH of_today AS (
      SELECT created_at FROM sites WHERE registered_by = ${keyId} AND created_at > now() - interval '24 hours'
    )
    SELECT
      (SELECT count(*)::int FROM of_today) AS registered,
      (
        SELECT ceil(extract(epoch FROM created_at + interval '24 hours' - now()))::int FROM of_today
        ORDER BY created_at DESC OFFSET ${max - 1} LIMIT 1
      ) AS seconds`.execute(db)
  const { registered = 0, seconds } = rows[0] ?? {}
  return { remaining: Math.max(0, max - registered), retryAfterSeconds: Math.max(1, seconds ?? 1) }
}

function toRecord(row: Selectable<Tables['sites']>): SiteRecord {
  return {
    siteId: row.site_id,
    settings: {
      name: row.name ?? row.site_id,
      timezone: row.timezone,
      conversion_event: row.conversion_event,
      retention_days: row.retention_days,
    },
    createdAt: row.created_at.getTime(),
  }
}
