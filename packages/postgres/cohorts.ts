import { type Selectable, sql } from 'kysely'
import { cohortLimits, type CohortSettings } from '@sluice/contracts/cohorts'
import type { Page } from '@sluice/contracts/paging'
import type { SiteIds } from '@sluice/contracts/scopes'
import { takeAdvisoryLock } from './advisory-lock.ts'
import { requireBelowLimit } from './count-rows.ts'
import type { Postgres } from './open.ts'
import { requirePageSize, selectPage } from './page.ts'
import { lockSite } from './sites.ts'
import type { Db, Tables } from './tables.ts'
import { visibleSiteCondition } from './visible-sites.ts'

/** A cohort's record (docs/http-interface.md#cohort-record). */
export interface CohortRecord {
  cohortId: string
  siteId: string
  settings: CohortSettings
  /** Unix ms. */
  createdAt: number
  /** Unix ms of the last change; at first that of the creation. */
  updatedAt: number
}

/**
 * Cohorts in Postgres. Cohorts of sites that are not in `siteIds` are treated as absent. Every method throws AppError
 * `unavailable` while Postgres is unavailable.
 */
export interface CohortStore {
  /**
   * If a cohort with this id is stored already, returns that cohort. Throws AppError `conflict` when the site has the
   * maximum number of cohorts (`cohortLimits`), and `not_found` when the site has been deleted.
   */
  create(cohort: { cohortId: string; siteId: string; settings: CohortSettings }): Promise<CohortRecord>
  find(cohortId: string, siteIds: SiteIds): Promise<CohortRecord | undefined>
  /**
   * Lists the cohorts of one site, newest first; `total` counts all of them. Throws AppError `invalid_field` for a page
   * whose criteria are too large in total.
   */
  list(siteId: string, page: Page): Promise<{ cohorts: CohortRecord[]; total: number }>
  /** Changes the settings that are present; undefined where `find` returns undefined. */
  update(cohortId: string, siteIds: SiteIds, settings: Partial<CohortSettings>): Promise<CohortRecord | undefined>
  /** Returns false where `find` returns undefined. */
  delete(cohortId: string, siteIds: SiteIds): Promise<boolean>
}

/** The cohorts of this Postgres. */
export function cohortStore(postgres: Postgres): CohortStore {
  return {
    create: ({ cohortId, siteId, settings }) =>
      postgres.transaction(async (transaction) => {
        await lockSite(transaction, siteId)
        // Without the lock, two concurrent creations would both count the cohorts before either is stored.
        await takeAdvisoryLock(transaction, 'cohort', siteId)
        const stored = await find(transaction, cohortId, null)
        if (stored) return stored
        const ofSite = transaction.selectFrom('cohorts').where('site_id', '=', siteId)
        await requireBelowLimit(ofSite, cohortLimits.cohortsPerSiteMax, 'cohorts')
        const row = await transaction
          .insertInto('cohorts')
          .values({
            cohort_id: cohortId,
            site_id: siteId,
            name: settings.name,
            description: settings.description,
            criteria: JSON.stringify(settings.criteria),
          })
          .returningAll()
          .executeTakeFirstOrThrow()
        return toRecord(row)
      }),
    find: (cohortId, siteIds) => postgres.run((db) => find(db, cohortId, siteIds)),
    list: (siteId, page) =>
      postgres.run(async (db) => {
        const newestFirst = db
          .selectFrom('cohorts')
          .selectAll()
          .where('site_id', '=', siteId)
          .orderBy('created_at', 'desc')
          .orderBy('cohort_id', 'desc')
        const { limit, offset } = page
        const read = newestFirst.clearSelect().select('criteria as document').limit(limit).offset(offset)
        await requirePageSize(db, sql`${read}`)
        const { rows, total } = await selectPage(newestFirst, page)
        return { cohorts: rows.map(toRecord), total }
      }),
    update: (cohortId, siteIds, { name, description, criteria }) =>
      postgres.run(async (db) => {
        const row = await db
          .updateTable('cohorts')
          // Columns that are undefined are left out.
          .set({ name, description, criteria: criteria && JSON.stringify(criteria), updated_at: sql`now()` })
          .where('cohort_id', '=', cohortId)
          .where(visibleSiteCondition(siteIds))
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    delete: (cohortId, siteIds) =>
      postgres.run(async (db: Db) => {
        const { numDeletedRows } = await db
          .deleteFrom('cohorts')
          .where('cohort_id', '=', cohortId)
          .where(visibleSiteCondition(siteIds))
          .executeTakeFirst()
        return numDeletedRows > 0n
      }),
  }
}

async function find(db: Db, cohortId: string, siteIds: SiteIds): Promise<CohortRecord | undefined> {
  const row = await db
    .selectFrom('cohorts')
    .selectAll()
    .where('cohort_id', '=', cohortId)
    .where(visibleSiteCondition(siteIds))
    .executeTakeFirst()
  return row && toRecord(row)
}

function toRecord(row: Selectable<Tables['cohorts']>): CohortRecord {
  return {
    cohortId: row.cohort_id,
    siteId: row.site_id,
    settings: { name: row.name, description: row.description, criteria: row.criteria },
    createdAt: row.created_at.getTime(),
    updatedAt: row.updated_at.getTime(),
  }
}
