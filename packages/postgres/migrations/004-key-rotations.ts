import type { Kysely } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // The key_id that replaces it; null: it was not rotated.
  await db.schema.alterTable('api_keys').addColumn('rotated_to', 'text').execute()
}
