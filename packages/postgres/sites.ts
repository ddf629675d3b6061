import { eventLimits } from '@sluice/contracts/event-fields'
import type { SiteSettings } from '@sluice/contracts/sites'
import { type Kysely, type Selectable, sql } from 'kysely'
import type { Postgres } from './open.ts'
import { pollOverlap } from './poll-overlap.ts'
import type { Tables } from './tables.ts'

/** A site's record (contract section 5), without what its events tell. */
export interface SiteRecord {
  siteId: string
  settings: SiteSettings
  createdAt: Date
}

/** Sites in Postgres. Every method throws SluiceError 503 while Postgres is away. */
export interface SiteStore {
  find(siteId: string): Promise<SiteRecord | undefined>
  /** By id, in the order of its bytes; `siteIds`: these alone (null: all). */
  list(
    page: { limit: number; offset: number },
    siteIds: readonly string[] | null,
  ): Promise<{ sites: SiteRecord[]; total: number }>
  /** Registers a site in the name of a key; undefined when it is registered already, which then stays as it is. */
  create(siteId: string, settings: Partial<SiteSettings>, keyId: string): Promise<SiteRecord | undefined>
  /** Changes what is given; undefined for a site that is not registered. */
  update(siteId: string, settings: Partial<SiteSettings>): Promise<SiteRecord | undefined>
  /** Registers the sites that are new; known ones stay as they are. */
  register(siteIds: readonly string[]): Promise<void>
  /**
   * The same in the name of a key, which may register 1,000 new sites in any 24 hours: the first in the given order.
   * Says which ones it may not, and what the known ones ask of their events. Exact, however many processes ask at once.
   */
  registerFor(keyId: string, siteIds: readonly string[]): Promise<Registration>
  /** Which of these sites are registered, each with the days that its events are kept (null: for ever). */
  findKnown(siteIds: readonly string[]): Promise<ReadonlyMap<string, number | null>>
  /**
   * Sites that somebody named or changed on purpose at or after `since`, by Postgres's clock; `asOf` is the next call's
   * `since`. Those that events registered are not among them: they have nothing to tell.
   */
  changedSince(since: Date | undefined): Promise<{ sites: ChangedSite[]; asOf: Date }>
}

export interface Registration {
  /** Sites that were not registered, and are not known otherwise. */
  refused: readonly string[]
  /** Seconds until the key may register another site. */
  retryAfterSeconds: number
  /** Days that events are kept, for sites that were known and do not keep them for ever. */
  retentionDays: ReadonlyMap<string, number>
}

export interface ChangedSite {
  siteId: string
  retentionDays: number | null
}

/** The first half of an advisory lock's name; any number serves, as long as every build uses this one. */
const registrationLock = 5_757_006
/** A process that stands still with the lock must not hold up others for longer; they try again later. */
const lockTimeoutMs = 400

type Db = Kysely<Tables>

export function siteStore(postgres: Postgres): SiteStore {
  return {
    find: (siteId) =>
      postgres.run(async (db) => {
        const row = await db.selectFrom('sites').selectAll().where('site_id', '=', siteId).executeTakeFirst()
        return row && toRecord(row)
      }),
    list: ({ limit, offset }, siteIds) =>
      postgres.run(async (db) => {
        const listed = db
          .selectFrom('sites')
          .$if(siteIds !== null, (query) =>
            query.where('site_id', '=', sql<string>`ANY (${[...(siteIds ?? [])]}::text[])`),
          )
        const rows = await listed
          .selectAll()
          .orderBy(sql`site_id COLLATE "C"`)
          .limit(limit)
          .offset(offset)
          .execute()
        const { total } = await listed
          .select((select) => select.fn.countAll<string>().as('total'))
          .executeTakeFirstOrThrow()
        return { sites: rows.map(toRecord), total: Number(total) }
      }),
    create: (siteId, settings, keyId) =>
      postgres.run(async (db) => {
        const row = await db
          .insertInto('sites')
          .values({ site_id: siteId, ...columnsOf(settings), registered_by: keyId, changed_at: sql`now()` })
          .onConflict((conflict) => conflict.doNothing())
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    update: (siteId, settings) =>
      postgres.run(async (db) => {
        const row = await db
          .updateTable('sites')
          .set({ ...columnsOf(settings), changed_at: sql`now()` })
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
        const known = await findKnown(db, siteIds)
        const unknown = [...new Set(siteIds)].filter((siteId) => !known.has(siteId))
        const retentionDays = new Map<string, number>()
        for (const [siteId, days] of known) if (days !== null) retentionDays.set(siteId, days)
        if (unknown.length === 0) return { refused: [], retryAfterSeconds: 0, retentionDays }
        // A key that has no room is refused without a lock: however often it asks, it waits for nobody.
        const { room, retryAfterSeconds } = await roomOf(db, keyId)
        if (room === 0) {
          // What took the last of the room may have been a call for these very sites.
          const since = await findKnown(db, unknown)
          return { refused: unknown.filter((siteId) => !since.has(siteId)), retryAfterSeconds, retentionDays }
        }
        const refusal = await db.transaction().execute((transaction) => registerUpToLimit(transaction, keyId, unknown))
        return { ...refusal, retentionDays }
      }),
    findKnown: (siteIds) => postgres.run((db) => findKnown(db, siteIds)),
    changedSince: (since) =>
      postgres.run(async (db) => {
        const { asOf } = await db.selectNoFrom(sql<Date>`now()`.as('asOf')).executeTakeFirstOrThrow()
        if (since === undefined) return { sites: [], asOf }
        const rows = await db
          .selectFrom('sites')
          .select(['site_id', 'retention_days'])
          .where('changed_at', '>=', sql<Date>`${since}::timestamptz - ${pollOverlap}`)
          .execute()
        return { sites: rows.map((row) => ({ siteId: row.site_id, retentionDays: row.retention_days })), asOf }
      }),
  }
}

/**
 * Registers sites that somebody who administers keys names: as many as there are, in the name of that key (null: of
 * none). To be called in the transaction that stores what names them.
 */
export async function registerNamed(db: Db, siteIds: readonly string[], keyId: string | null): Promise<void> {
  await insertNew(db, siteIds, keyId, sql`now()`)
}

/** Inserts first and takes back what is too much: which sites are new is only known once they are inserted. */
async function registerUpToLimit(
  db: Db,
  keyId: string,
  siteIds: readonly string[],
): Promise<Omit<Registration, 'retentionDays'>> {
  await sql`SELECT set_config('lock_timeout', ${String(lockTimeoutMs)}, true)`.execute(db)
  // One at a time for each key: nobody else changes its count until the end of the transaction.
  await sql`SELECT pg_advisory_xact_lock(${registrationLock}, hashtext(${keyId}))`.execute(db)
  const { room } = await roomOf(db, keyId)
  const inserted = await insertNew(db, siteIds, keyId)
  const refused = siteIds.filter((siteId) => inserted.has(siteId)).slice(room)
  if (refused.length === 0) return { refused, retryAfterSeconds: 0 }
  await sql`DELETE FROM sites WHERE site_id = ANY (${refused}::text[])`.execute(db)
  const { retryAfterSeconds } = await roomOf(db, keyId)
  return { refused, retryAfterSeconds }
}

/** Those that are registered, with the days that their events are kept. */
async function findKnown(db: Db, siteIds: readonly string[]): Promise<Map<string, number | null>> {
  const { rows } = await sql<{ site_id: string; retention_days: number | null }>`
    SELECT site_id, retention_days FROM sites WHERE site_id = ANY (${[...siteIds]}::text[])`.execute(db)
  return new Map(rows.map(({ site_id, retention_days }) => [site_id, retention_days]))
}

/** Returns the new ones. */
async function insertNew(
  db: Db,
  siteIds: readonly string[],
  keyId: string | null,
  changedAt = sql`NULL`,
): Promise<Set<string>> {
  if (siteIds.length === 0) return new Set()
  // Sorted: two that register the same sites in different orders would wait for each other for ever.
  const sorted = [...new Set(siteIds)].sort()
  const { rows } = await sql<{ site_id: string }>`
    INSERT INTO sites (site_id, registered_by, changed_at)
    SELECT site_id, ${keyId}::text, ${changedAt} FROM unnest(${sorted}::text[]) AS new (site_id)
    ON CONFLICT DO NOTHING RETURNING site_id`.execute(db)
  return new Set(rows.map(({ site_id }) => site_id))
}

/** How many sites a key may still register now, and the seconds until it may register one more. */
async function roomOf(db: Db, keyId: string): Promise<{ room: number; retryAfterSeconds: number }> {
  const max = eventLimits.newSitesPerDayMax
  // Sites named on purpose count too, without a limit of their own: there is room again when all but 999 are a day old.
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
  return { room: Math.max(0, max - registered), retryAfterSeconds: Math.max(1, seconds ?? 1) }
}

/** The columns of the settings that are given. */
function columnsOf({ name, timezone, conversion_event, retention_days }: Partial<SiteSettings>) {
  return {
    ...(name === undefined ? {} : { name }),
    ...(timezone === undefined ? {} : { timezone }),
    ...(conversion_event === undefined ? {} : { conversion_event }),
    ...(retention_days === undefined ? {} : { retention_days }),
  }
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
    createdAt: row.created_at,
  }
}
