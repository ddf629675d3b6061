import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // When `npm run reshard` began to double the number; gateways then assume several shards. Null: it is not being
  // doubled.
  await sql`ALTER TABLE shards ADD COLUMN doubling_since timestamptz`.execute(db)
}
