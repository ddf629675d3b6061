import type { Kysely } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // The rows of a build that does not know lanes are of the live one.
  await db.schema
    .alterTable('log_watermarks')
    .addColumn('lane', 'text', (column) => column.notNull().defaultTo('live'))
    .execute()
}
