import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { SluiceError } from '@sluice/contracts/errors'
import { findFreePort, waitUntil } from '@sluice/engines/processes'
import { sql } from 'kysely'
import { openPostgres, type Postgres } from './open.ts'
import { type Cuttable, cuttable, openTestPostgres, type TestPostgres } from './testing.ts'

let database: TestPostgres

beforeAll(async () => {
  database = await openTestPostgres()
})

afterAll(async () => {
  await database.drop()
})

const ask = (postgres: Postgres) => postgres.run((db) => sql`SELECT 1`.execute(db))

/** What a call is refused with; fails when it is not refused. */
async function refusal(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => {
      throw new Error('it was not refused')
    },
    (error: unknown) => error,
  )
}

const awayError = { name: 'SluiceError', status: 503, retryable: true, message: 'Service temporarily unavailable' }

describe('Postgres away is SluiceError 503, retryable', () => {
  test('when nobody listens', async () => {
    const postgres = openPostgres(`postgres://user:canary@127.0.0.1:${await findFreePort()}/sluice`)
    const error = await refusal(ask(postgres))
    expect(error).toMatchObject({ ...awayError, retryAfterSeconds: 1 })
    expect((error as SluiceError).internal).toMatch(/^Postgres: .*ECONNREFUSED/)
    expect(JSON.stringify(error)).not.toContain('canary')
    expect(await refusal(postgres.check())).toMatchObject(awayError)
    await postgres.close()
  })

  test('when its host has no address', async () => {
    const postgres = openPostgres('postgres://user:pass@no-such-host.invalid/sluice')
    expect(await refusal(ask(postgres))).toMatchObject(awayError)
    await postgres.close()
  })

  test('when the server ends the connection (57P01), also in the middle of a statement', async () => {
    const postgres = openPostgres(database.url, { poolSize: 1 })
    const slow = refusal(postgres.run((db) => sql`SELECT pg_sleep(60) /* victim */`.execute(db)))
    const kill = sql<{ ended: boolean }>`
      SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
      WHERE query LIKE '%victim%' AND state = 'active' AND pid != pg_backend_pid()`
    await waitUntil(async () => (await kill.execute(database.db)).rows.length > 0, 'the statement runs', 5_000)
    expect(await slow).toMatchObject(awayError)
    await waitUntil(() => ask(postgres).then(Boolean, () => false), 'another connection is made', 5_000)
    await postgres.close()
  })

  test('when the database has no connection left (53300)', async () => {
    const limited = await openTestPostgres()
    await sql`ALTER DATABASE ${sql.ref(new URL(limited.url).pathname.slice(1))} CONNECTION LIMIT 0`.execute(database.db)
    await sql`CREATE ROLE crowd LOGIN PASSWORD 'crowd'`.execute(database.db)
    const url = new URL(limited.url)
    url.username = 'crowd'
    url.password = 'crowd'
    const postgres = openPostgres(url.href)
    expect(await refusal(ask(postgres))).toMatchObject(awayError)
    await postgres.close()
    await sql`DROP ROLE crowd`.execute(database.db)
    await limited.drop()
  })

  test('when a statement takes longer than it may', async () => {
    const impatient = openPostgres(database.url, { queryTimeoutMs: 100 })
    const slow = impatient.run((db) => sql`SELECT pg_sleep(1)`.execute(db))
    expect(await refusal(slow)).toMatchObject(awayError)
    await impatient.close()
  })

  test('when a transaction was rolled back for a deadlock (40P01)', async () => {
    const raised = database.run((db) =>
      sql`DO $$ BEGIN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END $$`.execute(db),
    )
    expect(await refusal(raised)).toMatchObject(awayError)
  })
})

describe('what no time mends passes unchanged', () => {
  test('statements that are wrong', async () => {
    const error = await refusal(database.run((db) => sql`SELECT * FROM nowhere`.execute(db)))
    expect(error).not.toBeInstanceOf(SluiceError)
    expect(error).toMatchObject({ code: '42P01' })
  })

  test('a URL that is none', async () => {
    const postgres = openPostgres('postgres://user:pass@host:notaport/sluice')
    const error = await refusal(ask(postgres))
    expect(error).not.toBeInstanceOf(SluiceError)
    await postgres.close()
  })

  test('a wrong password, and a database that is not there', async () => {
    for (const change of [(url: URL) => (url.password = 'wrong'), (url: URL) => (url.pathname = '/nowhere')]) {
      const url = new URL(database.url)
      change(url)
      const postgres = openPostgres(url.href)
      expect(await refusal(ask(postgres))).not.toBeInstanceOf(SluiceError)
      await postgres.close()
    }
  })

  test('failures of our own', async () => {
    const own = new SluiceError(409, { message: 'Conflict' })
    expect(await refusal(database.run(() => Promise.reject(own)))).toBe(own)
    expect(await refusal(database.run(() => Promise.reject(new TypeError('x is not a function'))))).toBeInstanceOf(
      TypeError,
    )
  })
})

describe('a way that is cut', () => {
  let way: Cuttable
  let postgres: Postgres
  const idleErrors: Error[] = []

  beforeAll(async () => {
    way = await cuttable(database.url)
    postgres = openPostgres(way.url, { onIdleError: (error) => idleErrors.push(error) })
  })

  afterAll(async () => {
    await postgres.close()
    await way.close()
  })

  test('is away, told of its idle connections, and works again by itself when it is mended', async () => {
    await postgres.check()
    await way.cut()
    await waitUntil(() => idleErrors.length > 0, 'the idle connection is missed', 5_000)
    expect(await refusal(ask(postgres))).toMatchObject(awayError)
    expect(await refusal(postgres.check())).toMatchObject(awayError)
    await way.mend()
    await ask(postgres)
    await postgres.check()
  })

  test('or hangs, is away after the time for a connection', async () => {
    await way.cut()
    await way.mend()
    way.freeze()
    const started = performance.now()
    expect(await refusal(ask(postgres))).toMatchObject(awayError)
    expect(performance.now() - started).toBeLessThan(5_000)
    await way.mend()
    await ask(postgres)
  })
})

test('a pool opens no connection before it is used', async () => {
  const postgres = openPostgres(`postgres://user:pass@127.0.0.1:${await findFreePort()}/sluice`)
  await postgres.close()
})
