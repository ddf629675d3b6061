import type { Kysely } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable('replay_positions')
    .addColumn('log_id', 'text', (column) => column.notNull())
    .addColumn('partition', 'integer', (column) => column.notNull())
    .addColumn('next_offset', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('replay_positions_pkey', ['log_id', 'partition'])
    .execute()
}
