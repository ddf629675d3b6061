import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { type ClickHouse, openClickHouse } from '../clickhouse/client.ts'
import { migrationFolder, statementsOf } from '../migrate.ts'
import { type EventInserter, openEventInserter } from './event-inserter.ts'
import { type UserRow, userVersion } from './insert-users.ts'

let database: TestClickHouse
let clickHouse: ClickHouse
let inserter: EventInserter

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  clickHouse = openClickHouse(database.url)
  inserter = openEventInserter(database.url)
})

afterAll(async () => {
  await inserter.close()
  await clickHouse.close()
  await database.drop()
})

function user(site: string, version: string, fields: Partial<UserRow> = {}): UserRow {
  return {
    site_id: site,
    environment: 'prod',
    user_id: 'ada',
    email: '',
    name: '',
    company: '',
    plan: '',
    imported_at: 1_700_000_000_123,
    version,
    ...fields,
  }
}

async function insert(...users: UserRow[]): Promise<void> {
  const lines = users.map((each) => Buffer.from(`${JSON.stringify(each)}\n`))
  await inserter.insertUsers(lines, { timeoutMs: 10_000 })
}

async function stored(site: string): Promise<unknown[]> {
  const { rows } = await clickHouse.query(
    `SELECT environment, user_id, email, name, company, plan, toUnixTimestamp64Milli(imported_at) AS imported_at
     FROM users FINAL WHERE site_id = {site:String} ORDER BY environment, user_id`,
    { site },
  )
  return rows
}

test('the row of the highest version counts, whatever the order of the inserts', async () => {
  const versions = [userVersion(1, 7), userVersion(2, 1), userVersion(2, 2), userVersion(400_000, 1)]
  const names = versions.map((_, index) => `name ${index}`)
  const orders = [
    [0, 1, 2, 3],
    [3, 2, 1, 0],
    [2, 3, 3, 0, 1, 2],
  ]
  for (const [at, order] of orders.entries()) {
    const site = `order ${at}`
    for (const each of order) await insert(user(site, versions[each] ?? '', { name: names[each] ?? '' }))
    expect(await stored(site)).toMatchObject([{ name: 'name 3' }])
  }
})

test('a later row replaces every field, so that empty ones clear', async () => {
  const before = { email: 'a@x.example', name: 'Ada "Å" \\', company: 'Engines', plan: 'pro' }
  await insert(user('clear', userVersion(1, 1), before), user('clear', userVersion(1, 1), { environment: 'dev' }))
  expect(await stored('clear')).toMatchObject([{ environment: 'prod', ...before }, { environment: 'dev' }])
  await insert(user('clear', userVersion(1, 2), { plan: 'free' }))
  expect(await stored('clear')).toMatchObject([
    { email: '', name: '', company: '', plan: 'free', imported_at: 1_700_000_000_123 },
    { environment: 'dev' },
  ])
})

test('the migration that adds versions keeps the newest row of each user, and may be repeated', async () => {
  await clickHouse.command('DROP TABLE users')
  const statements = async (name: string) =>
    statementsOf(await readFile(new URL(`${name}.sql`, migrationFolder), 'utf8'))
  for (const statement of await statements('003-cohorts')) {
    if (statement.includes('users')) await clickHouse.command(statement)
  }
  await clickHouse.command(
    `INSERT INTO users (site_id, environment, user_id, plan, imported_at) VALUES
     ('old', 'prod', 'ada', 'pro', 1700000000.002), ('old', 'prod', 'ada', 'free', 1700000000.001), ('old', 'dev', 'ada', 'test', 0)`,
  )
  const kept = [
    { environment: 'prod', user_id: 'ada', plan: 'pro', imported_at: 1_700_000_000_002 },
    { environment: 'dev', user_id: 'ada', plan: 'test' },
  ]
  for (let run = 0; run < 2; run++) {
    for (const statement of await statements('007-user-versions')) await clickHouse.command(statement)
    expect(await stored('old')).toMatchObject(kept)
  }
  await insert(user('old', userVersion(1, 1), { plan: 'new' }))
  expect(await stored('old')).toMatchObject([{ plan: 'new' }, { plan: 'test' }])
})
