import { expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { appliedPostgresMigrations, migratePostgres } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { allRows, openTestPostgres } from '../test-postgres.ts'

test('a copy in Postgres has the catalogue and the migrations of a migrated database', async () => {
  const [migrated, copy] = [await openTestPostgres({ migrated: false }), await openTestPostgres()]
  await migratePostgres(migrated)
  const catalogue = await catalogueOf(migrated)
  expect(catalogue).toContainEqual(expect.stringMatching(/^api_keys .*PRIMARY KEY/))
  expect(await catalogueOf(copy)).toStrictEqual(catalogue)
  const applied = async (postgres: Postgres) => new Map(await appliedPostgresMigrations(postgres))
  expect(await applied(copy)).toStrictEqual(await applied(migrated))
  expect((await allRows(copy)).flat()).toHaveLength((await allRows(migrated)).flat().length)
  for (const postgres of [migrated, copy]) await postgres.drop()
})

/** Definitions of all columns, constraints, indexes, triggers and functions. */
async function catalogueOf({ db }: Postgres): Promise<string[]> {
  const { rows } = await sql<{ definition: string }>`
    WITH relations AS (SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace)
    SELECT concat_ws(' ', relname, definition) AS definition FROM (
      SELECT attrelid AS oid, concat_ws(' ', attnum, attname, format_type(atttypid, atttypmod), attnotnull,
        pg_get_expr(adbin, adrelid)) AS definition
      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      UNION ALL SELECT conrelid, concat_ws(' ', conname, pg_get_constraintdef(oid)) FROM pg_constraint
      UNION ALL SELECT indrelid, pg_get_indexdef(indexrelid) FROM pg_index
      UNION ALL SELECT tgrelid, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    ) AS definitions JOIN relations USING (oid)
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    ORDER BY 1`.execute(db)
  return rows.map(({ definition }) => definition)
}
