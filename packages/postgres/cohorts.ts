import { type Kysely, type Selectable, sql } from 'kysely'
import type { CohortSettings } from '@sluice/contracts/cohorts'
import type { Postgres } from './open.ts'
import type { Tables } from './tables.ts'

/** A cohort's record (docs/http-interface.md#cohort-record). */
export interface CohortRecord {
  cohortId: string
  siteId: string
  settings: CohortSettings
  createdAt: Date
  updatedAt: Date
}

/** The sites whose cohorts are visible; null: all sites. */
type SiteIds = readonly string[] | null

/** Cohorts in Postgres; those of other sites than `siteIds` are absent. Every method throws AppError 503 while Postgres is away. */
export interface CohortStore {
  create(cohort: { cohortId: string; siteId: string; settings: CohortSettings }): Promise<CohortRecord>
  find(cohortId: string, siteIds: SiteIds): Promise<CohortRecord | undefined>
  /** Lists the cohorts of one site, newest first; `total` counts all of them. */
  list(siteId: string, page: { limit: number; offset: number }): Promise<{ cohorts: CohortRecord[]; total: number }>
  /** Changes the settings that are present; undefined where `find` returns undefined. */
  update(cohortId: string, siteIds: SiteIds, settings: Partial<CohortSettings>): Promise<CohortRecord | undefined>
  /** Returns false where `find` returns undefined. */
  delete(cohortId: string, siteIds: SiteIds): Promise<boolean>
}

type Db = Kysely<Tables>

export function cohortStore(postgres: Postgres): CohortStore {
  return {
    create: ({ cohortId, siteId, settings }) =>
      postgres.run(async (db) => {
        const row = await db
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
    find: (cohortId, siteIds) =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('cohorts')
          .selectAll()
          .where('cohort_id', '=', cohortId)
          .where(siteCondition(siteIds))
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    list: (siteId, { limit, offset }) =>
      postgres.run(async (db) => {
        const listed = db.selectFrom('cohorts').where('site_id', '=', siteId)
        const rows = await listed
          .selectAll()
          .orderBy('created_at', 'desc')
          .orderBy('cohort_id', 'desc')
          .limit(limit)
          .offset(offset)
          .execute()
        const { total } = await listed
          .select((select) => select.fn.countAll<string>().as('total'))
          .executeTakeFirstOrThrow()
        return { cohorts: rows.map(toRecord), total: Number(total) }
      }),
    update: (cohortId, siteIds, settings) =>
      postgres.run(async (db) => {
        const row = await db
          .updateTable('cohorts')
          .set({ ...columnsOf(settings), updated_at: sql`now()` })
          .where('cohort_id', '=', cohortId)
          .where(siteCondition(siteIds))
          .returningAll()
          .executeTakeFirst()
        return row && toRecord(row)
      }),
    delete: (cohortId, siteIds) =>
      postgres.run(async (db: Db) => {
        const { numDeletedRows } = await db
          .deleteFrom('cohorts')
          .where('cohort_id', '=', cohortId)
          .where(siteCondition(siteIds))
          .executeTakeFirst()
        return numDeletedRows > 0n
      }),
  }
}

function siteCondition(siteIds: SiteIds) {
  return siteIds === null ? sql<boolean>`true` : sql<boolean>`site_id = ANY (${[...siteIds]}::text[])`
}

/** The columns of those settings that are present. */
function columnsOf({ name, description, criteria }: Partial<CohortSettings>) {
  return {
    ...(name === undefined ? {} : { name }),
    ...(description === undefined ? {} : { description }),
    ...(criteria === undefined ? {} : { criteria: JSON.stringify(criteria) }),
  }
}

function toRecord(row: Selectable<Tables['cohorts']>): CohortRecord {
  return {
    cohortId: row.cohort_id,
    siteId: row.site_id,
    settings: { name: row.name, description: row.description, criteria: row.criteria },
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
