// Databases on the servers of the tests. start.ts makes one migrated database on each, the template, and test files copy
// it (test-engines.ts): a migration of ClickHouse takes 0.5 s of CPU time and a copy 0.06 s, and those of Postgres take
// 0.24 s and 0.04 s.
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'

export interface TestDatabase {
  url: string
  /** Removes the database with all that is in it. */
  drop(): Promise<void>
}

/** A ClickHouse database name that was never used, `test_<random>`. The database does not exist yet. */
export function newClickHouseDatabase(serverUrl: string): TestDatabase {
  const url = withDatabase(serverUrl, freshName())
  return {
    url,
    drop: async () => {
      await runClickHouse(url, `DROP DATABASE IF EXISTS ${testName(url)} SYNC`)
    },
  }
}

/** Creates the database of `url` with the tables and rows of a migrated one. The UUID of its store is its own. */
export async function copyClickHouseDatabase(templateUrl: string, url: string): Promise<void> {
  const [template, copy] = [testName(templateUrl), testName(url)]
  const tables = await runClickHouse(url, `SELECT name FROM system.tables WHERE database = '${template}'`)
  await runClickHouse(url, `CREATE DATABASE ${copy}`)
  for (const table of tables.trimEnd().split('\n')) {
    const withRows = table === 'store' ? '' : 'CLONE'
    await runClickHouse(url, `CREATE TABLE ${copy}.${table} ${withRows} AS ${template}.${table}`)
  }
  await runClickHouse(url, `INSERT INTO ${copy}.store SELECT * REPLACE (generateUUIDv4() AS id) FROM ${template}.store`)
}

/** A new Postgres database `test_<random>`: a copy of the template, to which nobody may be connected, or empty. */
export async function createPostgresDatabase(serverUrl: string, templateUrl?: string): Promise<TestDatabase> {
  const url = withDatabase(serverUrl, freshName())
  const template = templateUrl === undefined ? 'template1' : testName(templateUrl)
  // By default, Postgres would write each page to its WAL, which takes 1.6 times the CPU time.
  await runPostgres(serverUrl, `CREATE DATABASE ${testName(url)} TEMPLATE ${template} STRATEGY = FILE_COPY`)
  return {
    url,
    drop: async () => {
      await runPostgres(serverUrl, `DROP DATABASE IF EXISTS ${testName(url)} WITH (FORCE)`)
    },
  }
}

/** The prefix of database names. Destructive helpers refuse a name without it. */
const prefix = 'test_'

function freshName(): string {
  return `${prefix}${randomBytes(8).toString('hex')}`
}

/** The URL with another database. */
export function withDatabase(url: string, database: string): string {
  const changed = new URL(url)
  changed.pathname = `/${database}`
  return changed.href
}

/**
 * The database of a URL, escaped for SQL. Throws unless it is a test database, so that no other database is ever
 * dropped.
 */
function testName(url: string): string {
  const name = new URL(url).pathname.slice(1)
  if (!/^test_\w+$/.test(name)) throw new Error(`${name} is not a test database`)
  return name
}

/** Returns the rows of the answer as text, with tabs between the columns. */
async function runClickHouse(url: string, sql: string): Promise<string> {
  const { origin, username, password } = new URL(url)
  const response = await fetch(origin, {
    method: 'POST',
    body: sql,
    headers: { 'X-ClickHouse-User': decodeURIComponent(username), 'X-ClickHouse-Key': decodeURIComponent(password) },
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

async function runPostgres(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
