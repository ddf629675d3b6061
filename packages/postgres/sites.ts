import { eventLimits } from '@sluice/contracts/event-fields'
import { type Kysely, sql } from 'kysely'
import type { Postgres } from './open.ts'
import type { Tables } from './tables.ts'

/** Sites in Postgres. Every method throws SluiceError 503 while Postgres is away. */
export interface SiteStore {
  isKnown(siteId: string): Promise<boolean>
  /** Registers the sites that are new; known ones stay as they are. */
  register(siteIds: readonly string[]): Promise<void>
  /**
   * The same in the name of a key, which may register 1,000 new sites in any 24 hours: the first in the given order.
   * Returns the others, which stay unknown. Exact, however many processes ask at once.
   */
  registerFor(keyId: string, siteIds: readonly string[]): Promise<Refusal>
}

export interface Refusal {
  /** Sites that were not registered, and are not known otherwise. */
  refused: readonly string[]
  /** Seconds until the key may register another site. */
  retryAfterSeconds: number
}

/** The first half of an advisory lock's name; any number serves, as long as every build uses this one. */
const registrationLock = 5_757_006
/** A process that stands still with the lock must not hold up others for longer; they try again later. */
const lockTimeoutMs = 400

type Db = Kysely<Tables>

export function siteStore(postgres: Postgres): SiteStore {
  return {
    isKnown: (siteId) => postgres.run(async (db) => (await findUnknown(db, [siteId])).length === 0),
    register: (siteIds) =>
      postgres.run(async (db) => {
        await insertNew(db, siteIds, null)
      }),
    registerFor: (keyId, siteIds) =>
      postgres.run(async (db) => {
        const unknown = await findUnknown(db, siteIds)
        if (unknown.length === 0) return { refused: [], retryAfterSeconds: 0 }
        // A key that has no room is refused without a lock: however often it asks, it waits for nobody.
        const { room, retryAfterSeconds } = await roomOf(db, keyId)
        if (room === 0) return { refused: unknown, retryAfterSeconds }
        return db.transaction().execute((transaction) => registerUpToLimit(transaction, keyId, unknown))
      }),
  }
}

/** Inserts first and takes back what is too much: which sites are new is only known once they are inserted. */
async function registerUpToLimit(db: Db, keyId: string, siteIds: readonly string[]): Promise<Refusal> {
  await sql`SELECT set_config('lock_timeout', ${String(lockTimeoutMs)}, true)`.execute(db)
  // One at a time for each key: nobody else changes its count until the end of the transaction.
  await sql`SELECT pg_advisory_xact_lock(${registrationLock}, hashtext(${keyId}))`.execute(db)
  const { room } = await roomOf(db, keyId)
  const inserted = await insertNew(db, siteIds, keyId)
  const refused = siteIds.filter((siteId) => inserted.has(siteId)).slice(room)
  if (refused.length === 0) return { refused, retryAfterSeconds: 0 }
  const { retryAfterSeconds } = await roomOf(db, keyId)
  await sql`DELETE FROM sites WHERE site_id = ANY (${refused}::text[])`.execute(db)
  return { refused, retryAfterSeconds }
}

/** Those that are not known, each once, in the given order. */
async function findUnknown(db: Db, siteIds: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ site_id: string }>`
    SELECT site_id FROM sites WHERE site_id = ANY (${[...siteIds]}::text[])`.execute(db)
  const known = new Set(rows.map(({ site_id }) => site_id))
  return [...new Set(siteIds)].filter((siteId) => !known.has(siteId))
}

/** Returns the new ones. */
async function insertNew(db: Db, siteIds: readonly string[], keyId: string | null): Promise<Set<string>> {
  if (siteIds.length === 0) return new Set()
  // Sorted: two that register the same sites in different orders would wait for each other for ever.
  const sorted = [...new Set(siteIds)].sort()
  const { rows } = await sql<{ site_id: string }>`
    INSERT INTO sites (site_id, registered_by) SELECT site_id, ${keyId}::text FROM unnest(${sorted}::text[]) AS new (site_id)
    ON CONFLICT DO NOTHING RETURNING site_id`.execute(db)
  return new Set(rows.map(({ site_id }) => site_id))
}

/** How many sites a key may still register now, and the seconds until it may register one more. */
async function roomOf(db: Db, keyId: string): Promise<{ room: number; retryAfterSeconds: number }> {
  const { rows } = await sql<{ registered: number; seconds: number | null }>`
    SELECT
      count(*)::int AS registered,
      ceil(extract(epoch FROM min(created_at) + interval '24 hours' - now()))::int AS seconds
    FROM sites WHERE registered_by = ${keyId} AND created_at > now() - interval '24 hours'`.execute(db)
  const { registered = 0, seconds } = rows[0] ?? {}
  return {
    room: Math.max(0, eventLimits.newSitesPerDayMax - registered),
    retryAfterSeconds: Math.max(1, seconds ?? 1),
  }
}
