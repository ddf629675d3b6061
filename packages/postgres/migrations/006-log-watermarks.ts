import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable('log_watermarks')
    .addColumn('log_id', 'text', (column) => column.notNull())
    .addColumn('partition', 'integer', (column) => column.notNull())
    // Null: no writer has read to the partition's end yet.
    .addColumn('complete_until', 'timestamptz')
    .addPrimaryKeyConstraint('log_watermarks_pkey', ['log_id', 'partition'])
    .execute()
  // Each row changes once a second. The free space in its page is for the new version of the row.
  await sql`ALTER TABLE log_watermarks SET (fillfactor = 50)`.execute(db)
}
