import type { Kysely } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // Null: an older site, or one that no key registered.
  await db.schema.alterTable('sites').addColumn('registered_by', 'text').execute()
  await db.schema.createIndex('sites_registered_by').on('sites').columns(['registered_by', 'created_at']).execute()
}
