import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type TestClickHouse, testClickHouse } from '@sluice/engines/testing'
import { type ClickHouse, openClickHouse } from './client.ts'
import { checkClickHouseSchema, migrateClickHouse, statementsOf } from './migrate.ts'

let database: TestClickHouse
let clickHouse: ClickHouse

beforeEach(() => {
  database = testClickHouse()
  clickHouse = openClickHouse(database.url)
})

afterEach(async () => {
  await clickHouse.close()
  await database.drop()
})

test('creates the database and its tables, and applies nothing a second time', async () => {
  const applied = await migrateClickHouse(database.url)
  expect(applied).toContain('001-events')
  expect(await migrateClickHouse(database.url)).toStrictEqual([])
  await checkClickHouseSchema(clickHouse)
  const { rows } = await clickHouse.query('SELECT count() AS events FROM events')
  expect(rows).toStrictEqual([{ events: 0 }])
})

test('can be repeated when it ended half way', async () => {
  const applied = await migrateClickHouse(database.url)
  await clickHouse.command('TRUNCATE TABLE schema_migrations')
  expect(await migrateClickHouse(database.url)).toStrictEqual(applied)
})

test('an older schema is refused, with what to do', async () => {
  await migrateClickHouse(database.url)
  await clickHouse.command('TRUNCATE TABLE schema_migrations')
  await expect(checkClickHouseSchema(clickHouse)).rejects.toMatchObject({
    internal: expect.stringMatching(/older than this build \(missing: 001-events.*Run "npm run migrate"/) as unknown,
  })
})

test('a newer schema is refused, and left as it is', async () => {
  await migrateClickHouse(database.url)
  await clickHouse.command(`INSERT INTO schema_migrations (name) VALUES ('999-later')`)
  const newer = { internal: expect.stringContaining('newer than this build (unknown: 999-later)') as unknown }
  await expect(checkClickHouseSchema(clickHouse)).rejects.toMatchObject(newer)
  await expect(migrateClickHouse(database.url)).rejects.toMatchObject(newer)
})

test('statements end at semicolons that end a line; those in comments end nothing', () => {
  const sql =
    '-- First;\nCREATE TABLE a\n(\n    -- One; two;\n    b String\n);\n\n-- Last.\nINSERT INTO a VALUES (1);\n'
  expect(statementsOf(sql).map((statement) => statement.replaceAll(/\s+/g, ' '))).toStrictEqual([
    'CREATE TABLE a ( b String )',
    'INSERT INTO a VALUES (1)',
  ])
})
