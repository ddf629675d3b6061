import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .alterTable('api_keys')
    // Null: every site; the defaults.
    .addColumn('site_ids', sql`text[]`)
    .addColumn('rate_limits', 'jsonb')
    .execute()
  // Keys that a start created have the highest limits; existing keys of this kind get them now.
  await sql`
    UPDATE api_keys SET
      rate_limits = '{"events_per_minute": 10000000, "queries_per_minute": 10000000, "admin_per_minute": 10000000}',
      changed_at = now()
    WHERE bootstrap`.execute(db)

  await db.schema
    .alterTable('sites')
    // Null: the site's id.
    .addColumn('name', 'text')
    .addColumn('timezone', 'text', (column) => column.notNull().defaultTo('UTC'))
    .addColumn('conversion_event', 'text')
    .addColumn('retention_days', 'integer')
    // Null: registered by an event and never changed; polls leave these out.
    .addColumn('changed_at', 'timestamptz')
    .execute()
  await db.schema
    .createIndex('sites_changed_at')
    .on('sites')
    .column('changed_at')
    .where(sql.ref('changed_at'), 'is not', null)
    .execute()
}
