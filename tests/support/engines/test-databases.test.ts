import { expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { readStoreId } from '@sluice/event-store/store-identity'
import { appliedPostgresMigrations, migratePostgres } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { allRows, openTestPostgres } from '../test-postgres.ts'
import { testClickHouse } from './test-engines.ts'

test('a copy in ClickHouse has the tables and the migrations of a migrated database, and a store of its own', async () => {
  const databases = [testClickHouse(), testClickHouse(), testClickHouse()] as const
  const [migrated, ...copies] = databases
  await migrateClickHouse(migrated.url)
  for (const copy of copies) await copy.create()
  const found = []
  for (const { url } of databases) {
    const clickHouse = openClickHouse(url)
    const { rows: tables } = await clickHouse.query(
      `SELECT name, replaceAll(create_table_query, currentDatabase(), '') AS statement, total_rows
       FROM system.tables WHERE database = currentDatabase() ORDER BY name`,
    )
    const { rows: migrations } = await clickHouse.query(
      'SELECT name, oldest_build FROM schema_migrations ORDER BY name',
    )
    found.push({ id: await readStoreId(clickHouse), schema: { tables, migrations } })
    await clickHouse.close()
  }
  expect(found[0]?.schema).toMatchObject({ tables: { length: 5 }, migrations: { 0: { name: '001-events' } } })
  for (const { schema } of found) expect(schema).toStrictEqual(found[0]?.schema)
  expect(new Set(found.map(({ id }) => id)).size).toBe(3)
  for (const database of databases) await database.drop()
})

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
