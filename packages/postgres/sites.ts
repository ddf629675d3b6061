import type { Postgres } from './open.ts'

/** Sites in Postgres. Every method throws SluiceError 503 while Postgres is away. */
export interface SiteStore {
  isKnown(siteId: string): Promise<boolean>
  /** Registers the sites that are new; known ones stay as they are. */
  register(siteIds: readonly string[]): Promise<void>
}

export function siteStore(postgres: Postgres): SiteStore {
  return {
    isKnown: (siteId) =>
      postgres.run(
        async (db) =>
          (await db.selectFrom('sites').select('site_id').where('site_id', '=', siteId).executeTakeFirst()) !==
          undefined,
      ),
    register: (siteIds) =>
      postgres.run(async (db) => {
        if (siteIds.length === 0) return
        await db
          .insertInto('sites')
          // Sorted: two that register the same sites in different orders would wait for each other for ever.
          .values([...new Set(siteIds)].sort().map((siteId) => ({ site_id: siteId })))
          .onConflict((conflict) => conflict.column('site_id').doNothing())
          .execute()
      }),
  }
}
