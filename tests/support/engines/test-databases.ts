// Databases on the servers of the tests. start.ts makes one migrated database in Postgres, the template, and test files
// copy it (test-engines.ts): a migration takes 0.24 s of CPU time, and a copy takes 0.04 s.
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

async function runClickHouse(url: string, sql: string): Promise<void> {
  const { origin, username, password } = new URL(url)
  const response = await fetch(origin, {
    method: 'POST',
    body: sql,
    headers: { 'X-ClickHouse-User': decodeURIComponent(username), 'X-ClickHouse-Key': decodeURIComponent(password) },
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
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
