import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { thisBuild } from '@sluice/runtime/schema-versions'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type TestClickHouse, testClickHouse } from '../../tests/support/engines/test-engines.ts'
import { type ClickHouse, openClickHouse } from './clickhouse/client.ts'
import { ClickHouseError } from './clickhouse/errors.ts'
import { waitForMutations } from './clickhouse/mutations.ts'
import {
  checkClickHouseSchema,
  migrateClickHouse,
  migrationFolder,
  oldestBuildOf,
  planClickHouse,
  statementsOf,
} from './migrate.ts'

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

test('a migration creates the database and its tables and is applied once', async () => {
  const applied = await migrateClickHouse(database.url)
  expect(applied).toContain('001-events')
  expect(await migrateClickHouse(database.url)).toStrictEqual([])
  await checkClickHouseSchema(clickHouse)
  const { rows } = await clickHouse.query('SELECT count() AS events FROM events')
  expect(rows).toStrictEqual([{ events: 0 }])
})

test('every table that is mutated allows mutations while merges run, and too many of them are tried again', async () => {
  await migrateClickHouse(database.url)
  const { rows } = await clickHouse.query<{ name: string }>(
    `SELECT name FROM system.tables
     WHERE database = currentDatabase() AND engine_full LIKE '%number_of_free_entries_in_pool_to_execute_mutation = 1%'
     ORDER BY name`,
  )
  expect(rows.map(({ name }) => name)).toStrictEqual(['erasures', 'events', 'users'])
  await clickHouse.command('ALTER TABLE erasures MODIFY SETTING number_of_mutations_to_throw = 1')
  await clickHouse.command('SYSTEM STOP MERGES erasures')
  await clickHouse.command(`INSERT INTO erasures (erasure_id) VALUES ('era_1')`)
  const erase = () =>
    clickHouse.command(`ALTER TABLE erasures DELETE WHERE erasure_id = 'era_1'`, { settings: { mutations_sync: '0' } })
  await erase()
  await expect(erase()).rejects.toMatchObject({ serverCode: 692, retryable: true })
})

test('every table syncs what was inserted, also in a store of an earlier build', async () => {
  await migrateClickHouse(database.url)
  const synced = async () => {
    const { rows } = await clickHouse.query<{ name: string }>(
      `SELECT name FROM system.tables WHERE database = currentDatabase()
       AND engine_full LIKE '%fsync_after_insert = 1%' AND engine_full LIKE '%fsync_part_directory = 1%' ORDER BY name`,
    )
    return rows.map(({ name }) => name)
  }
  const all = ['erasures', 'events', 'schema_migrations', 'store', 'users']
  expect(await synced()).toStrictEqual(all)
  await clickHouse.command('ALTER TABLE schema_migrations RESET SETTING fsync_after_insert, fsync_part_directory')
  await migrateClickHouse(database.url)
  expect(await synced()).toStrictEqual(all)
})

test('a migration can be repeated after it ended half-way', async () => {
  const applied = await migrateClickHouse(database.url)
  await clickHouse.command('TRUNCATE TABLE schema_migrations')
  expect(await migrateClickHouse(database.url)).toStrictEqual(applied)
})

test('the projections contain events from before and after the migration that adds them', async () => {
  await migrateClickHouse(database.url)
  // The schema of a build without these projections.
  for (const projection of ['counts', 'user_weeks']) {
    await clickHouse.command(`ALTER TABLE events DROP PROJECTION ${projection}`, { settings: { mutations_sync: '1' } })
  }
  await clickHouse.command('TRUNCATE TABLE schema_migrations')
  const insert = (...events: { event_id: string; at: number }[]) =>
    clickHouse.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, user_id, received_at)
       SELECT 's', 'prod', 'view', fromUnixTimestamp64Milli(event.2, 'UTC'), event.1, 'u', now64(3)
       FROM (SELECT arrayJoin(arrayZip({ids:Array(String)}, {times:Array(Int64)})) AS event)`,
      { params: { ids: events.map(({ event_id }) => event_id), times: events.map(({ at }) => at) } },
    )
  const noon = Date.UTC(2024, 4, 15, 12)
  await insert({ event_id: 'before', at: noon + 1 }, { event_id: 'erased', at: noon - 1 })
  await clickHouse.command(`DELETE FROM events WHERE event_id = 'erased'`, {
    settings: { lightweight_deletes_sync: '2' },
  })
  await migrateClickHouse(database.url)
  await insert({ event_id: 'after', at: noon })
  await waitUntil(async () => {
    const sql = `SELECT count() AS waiting FROM system.mutations WHERE database = currentDatabase() AND NOT is_done`
    return (await clickHouse.query<{ waiting: number }>(sql)).rows[0]?.waiting === 0
  }, 'what was there is in the projections')
  const asked: [projection: string, sql: string, answer: object][] = [
    ['counts', `SELECT count() AS value FROM events WHERE site_id = 's'`, { value: 2 }],
    [
      'user_weeks',
      `SELECT toUnixTimestamp64Milli(min(timestamp)) AS value FROM events WHERE site_id = 's' GROUP BY user_key`,
      { value: noon },
    ],
  ]
  for (const [force_optimize_projection_name, sql, answer] of asked) {
    const { rows } = await clickHouse.query(sql, {}, { settings: { force_optimize_projection_name } })
    expect(rows).toStrictEqual([answer])
    const { rows: parts } = await clickHouse.query<{ without: number }>(
      `SELECT count() AS without FROM system.parts
       WHERE database = currentDatabase() AND table = 'events' AND active AND NOT has(projections, {name:String})`,
      { name: force_optimize_projection_name },
    )
    expect(parts).toStrictEqual([{ without: 0 }])
  }
})

test('an older schema is refused with the command to run', async () => {
  await migrateClickHouse(database.url)
  await clickHouse.command('TRUNCATE TABLE schema_migrations')
  await expect(checkClickHouseSchema(clickHouse)).rejects.toMatchObject({
    internal: expect.stringMatching(/older than this build \(missing: 001-events.*Run "npm run migrate"/) as unknown,
  })
})

describe('a schema that the next build has migrated', () => {
  /** Migrates with the migrations of this build and an invented next one. */
  async function migrateWithNextBuild(oldestBuild: number): Promise<readonly string[]> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-migrations-'))
    await cp(migrationFolder, folder, { recursive: true })
    const sql = `-- Oldest build: ${oldestBuild}\nALTER TABLE events ADD COLUMN IF NOT EXISTS next String;\n`
    await writeFile(join(folder, '999-next.sql'), sql)
    const applied = await migrateClickHouse(database.url, pathToFileURL(`${folder}/`))
    await rm(folder, { recursive: true })
    return applied
  }

  const appliedCount = async () => (await clickHouse.query('SELECT count() AS value FROM schema_migrations')).rows

  test('is used by a build that can work with it, and left unchanged by its migrate', async () => {
    await migrateClickHouse(database.url)
    expect(await migrateWithNextBuild(thisBuild)).toStrictEqual(['999-next'])
    const count = await appliedCount()
    await checkClickHouseSchema(clickHouse)
    expect(await migrateClickHouse(database.url)).toStrictEqual([])
    expect(await appliedCount()).toStrictEqual(count)
  })

  test('is refused by the services and the migrate of an older build, and stays unchanged', async () => {
    await migrateWithNextBuild(thisBuild + 1)
    const count = await appliedCount()
    const newer = {
      internal:
        `The ClickHouse schema is newer than this build, ${thisBuild} ` +
        `(unknown: 999-next needs build ${thisBuild + 1}). Run the newer build.`,
    }
    await expect(checkClickHouseSchema(clickHouse)).rejects.toMatchObject(newer)
    await expect(migrateClickHouse(database.url)).rejects.toMatchObject(newer)
    expect(await appliedCount()).toStrictEqual(count)
  })

  test('is refused when it does not say which builds can work with it', async () => {
    await migrateClickHouse(database.url)
    await clickHouse.command(`INSERT INTO schema_migrations (name) VALUES ('999-later')`)
    const newer = { internal: expect.stringContaining('(unknown: 999-later). Run the newer build.') as unknown }
    await expect(checkClickHouseSchema(clickHouse)).rejects.toMatchObject(newer)
  })
})

test('a schema whose migrations noted no builds is current', async () => {
  await migrateClickHouse(database.url)
  await clickHouse.command('ALTER TABLE schema_migrations DROP COLUMN oldest_build')
  await checkClickHouseSchema(clickHouse)
  expect(await migrateClickHouse(database.url)).toStrictEqual([])
})

test('a migration that names no oldest build is refused', () => {
  expect(oldestBuildOf('-- Oldest build: 12\nSELECT 1;\n')).toBe(12)
  expect(() => oldestBuildOf('-- A table.\nSELECT 1;\n')).toThrow('must begin with "-- Oldest build: <number>"')
})

test('statements end at semicolons at the end of a line, except in comments', () => {
  const sql =
    '-- First;\nCREATE TABLE a\n(\n    -- One; two;\n    b String\n);\n\n-- Last.\nINSERT INTO a VALUES (1);\n'
  expect(statementsOf(sql).map((statement) => statement.replaceAll(/\s+/g, ' '))).toStrictEqual([
    'CREATE TABLE a ( b String )',
    'INSERT INTO a VALUES (1)',
  ])
})

describe('a plan', () => {
  const planOne = async () => (await planClickHouse(database.url)).flatMap(({ migrations }) => migrations)

  test('has the statements of the missing migrations before there is a database, and makes none', async () => {
    const planned = await planOne()
    expect(planned.map(({ name }) => name)).toContain('001-events')
    expect(planned.flatMap(({ statements }) => statements.map(({ bytes }) => bytes)).every((n) => n === 0)).toBe(true)
    await expect(clickHouse.query('SELECT 1 FROM events')).rejects.toThrow(ClickHouseError)
    await migrateClickHouse(database.url)
    expect(await planClickHouse(database.url)).toStrictEqual([{ server: undefined, migrations: [] }])
  })

  test('has the bytes of the tables that are read or written anew', async () => {
    await migrateClickHouse(database.url)
    await clickHouse.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT 's', 'prod', 'view', now64(3), toString(number), now64(3) FROM numbers(1000)`,
    )
    await clickHouse.command('TRUNCATE TABLE schema_migrations')
    const statements = (await planOne()).flatMap((each) => each.statements)
    const bytesOf = (beginning: string) => statements.find(({ sql }) => sql.startsWith(beginning))?.bytes
    expect(bytesOf('ALTER TABLE events MATERIALIZE PROJECTION counts')).toBeGreaterThan(1_000)
    expect(bytesOf('ALTER TABLE events MODIFY SETTING')).toBe(0)
    expect(bytesOf('CREATE TABLE IF NOT EXISTS events')).toBe(0)
  })
})

describe('waiting for mutations', () => {
  const later = { settings: { mutations_sync: '0' } } as const
  const withRows = async () => {
    await migrateClickHouse(database.url)
    await clickHouse.command('CREATE TABLE t (n UInt8, text String) ENGINE = MergeTree ORDER BY n')
    await clickHouse.command(`INSERT INTO t SELECT number, 'x' FROM numbers(4)`)
  }

  test('ends when the last one has ended', async () => {
    await withRows()
    await clickHouse.command('ALTER TABLE t UPDATE text = toString(sleepEachRow(0.2)) WHERE 1', later)
    const seen: string[] = []
    await waitForMutations(database.url, (running) => seen.push(...running.map(({ table }) => table)), {
      pollMs: 10,
      failingMs: 60_000,
    })
    expect(seen).toContain('t')
    expect((await clickHouse.query('SELECT DISTINCT text FROM t')).rows).toEqual([{ text: '0' }])
  })

  test('ends with the reason and what to do when one only fails', async () => {
    await withRows()
    await clickHouse.command(`ALTER TABLE t UPDATE text = toString(throwIf(n = 3, 'canary')) WHERE 1`, later)
    const waiting = waitForMutations(database.url, () => undefined, { pollMs: 10, failingMs: 300 })
    await expect(waiting).rejects.toMatchObject({
      internal: expect.stringMatching(/mutation of t that fails: .*canary.*npm run migrate -- --wait/s) as unknown,
    })
    await clickHouse.command('KILL MUTATION WHERE database = currentDatabase()')
  })
})
