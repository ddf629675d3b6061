import type { Kysely } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // Builds that do not know lanes write rows of the live lane.
  await db.schema
    .alterTable('log_watermarks')
    .addColumn('lane', 'text', (column) => column.notNull().defaultTo('live'))
    .execute()
}
