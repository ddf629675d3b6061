import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { AppError } from '@sluice/runtime/errors'
import { failureName } from '@sluice/runtime/health'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../../tests/support/free-port.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { type TcpProxy, tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, patientPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { openPostgres, type Postgres, withPostgres } from './open.ts'

let database: TestPostgres

beforeAll(async () => {
  database = await openTestPostgres()
})

afterAll(async () => {
  await database.drop()
})

const runQuery = (postgres: Postgres) => postgres.run((db) => sql`SELECT 1`.execute(db))

/** Returns the error that a call rejects with; throws when the call succeeds. */
async function rejection(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => {
      throw new Error('it was not refused')
    },
    (error: unknown) => error,
  )
}

const awayError = { name: 'AppError', code: 'unavailable', retryable: true, message: 'Service temporarily unavailable' }

describe('a statement rejects with a retryable AppError 503', () => {
  test('when no server listens on the port', async () => {
    const postgres = openPostgres(`postgres://user:canary@127.0.0.1:${await findFreePort()}/sluice`)
    const error = await rejection(runQuery(postgres))
    expect(error).toMatchObject({ ...awayError, retryAfterSeconds: 1 })
    expect((error as AppError).internal).toMatch(/^Postgres: .*ECONNREFUSED/)
    expect(JSON.stringify(error)).not.toContain('canary')
    expect(await rejection(postgres.check())).toMatchObject(awayError)
    await postgres.close()
  })

  test('when the host name has no address', async () => {
    const postgres = openPostgres('postgres://user:pass@no-such-host.invalid/sluice')
    expect(await rejection(runQuery(postgres))).toMatchObject(awayError)
    await postgres.close()
  })

  test('when the server ends the connection during the statement (57P01)', async () => {
    const postgres = openPostgres(database.url, { poolSize: 1 })
    const slow = rejection(postgres.run((db) => sql`SELECT pg_sleep(60) /* victim */`.execute(db)))
    const terminate = sql<{ ended: boolean }>`
      SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
      WHERE query LIKE '%victim%' AND state = 'active' AND pid != pg_backend_pid()`
    await waitUntil(async () => (await terminate.execute(database.db)).rows.length > 0, 'the statement runs')
    expect(await slow).toMatchObject(awayError)
    await waitUntil(() => runQuery(postgres).then(Boolean, () => false), 'another connection is made')
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
    expect(await rejection(runQuery(postgres))).toMatchObject(awayError)
    await postgres.close()
    await sql`DROP ROLE crowd`.execute(database.db)
    await limited.drop()
  })

  test('when it exceeds the time-out of statements', async () => {
    const withShortTimeout = openPostgres(database.url, { queryTimeoutMs: 100 })
    const slow = withShortTimeout.run((db) => sql`SELECT pg_sleep(1)`.execute(db))
    expect(await rejection(slow)).toMatchObject(awayError)
    await withShortTimeout.close()
  })

  test('when the server ends its transaction after transaction_timeout (25P04)', async () => {
    const postgres = openPostgres(database.url, { poolSize: 1 })
    const slow = postgres.run((db) =>
      db.transaction().execute(async (transaction) => {
        await sql`SET LOCAL transaction_timeout = 50`.execute(transaction)
        await sql`SELECT pg_sleep(5)`.execute(transaction)
      }),
    )
    expect(await rejection(slow)).toMatchObject(awayError)
    await postgres.close()
  })

  test('when the server is a standby, which only reads (25006)', async () => {
    const postgres = openPostgres(database.url, { poolSize: 1 })
    const connection = () =>
      postgres.run(async (db) => (await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(db)).rows[0]?.pid)
    const before = await connection()
    expect(await connection()).toBe(before)
    const write = postgres.run((db) =>
      db
        .transaction()
        .setAccessMode('read only')
        .execute((transaction) => sql`CREATE TABLE refused (n int)`.execute(transaction)),
    )
    expect(await rejection(write)).toMatchObject(awayError)
    expect(await connection()).not.toBe(before)
    await postgres.close()
  })

  test('when its transaction was rolled back because of a deadlock (40P01)', async () => {
    const raised = database.run((db) =>
      sql`DO $$ BEGIN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END $$`.execute(db),
    )
    expect(await rejection(raised)).toMatchObject(awayError)
  })
})

describe('a refusal that an operator has to end says so', () => {
  const refusalAt = async (change: (url: URL) => void, statement = sql`SELECT 1`): Promise<unknown> => {
    const url = new URL(database.url)
    change(url)
    const postgres = openPostgres(url.href, patientPostgres)
    const error = await rejection(postgres.run((db) => statement.execute(db)))
    await postgres.close()
    return error
  }

  test('with a retryable 503 when the password is wrong or the user is unknown', async () => {
    for (const change of [(url: URL) => (url.password = 'wrong'), (url: URL) => (url.username = 'nobody')]) {
      const error = await refusalAt(change)
      expect(error).toMatchObject({ ...awayError, retryAfterSeconds: 1, needsOperator: true })
      expect((error as AppError).internal).toMatch(/^Postgres: password authentication failed/)
      expect(failureName(error)).toMatch(/^28/)
    }
  })

  test('when the database does not exist', async () => {
    const error = await refusalAt((url) => (url.pathname = '/nowhere'))
    expect(error).toMatchObject({ code: 'internal', retryable: false, needsOperator: true, cause: { code: '3D000' } })
    expect((error as AppError).internal).toBe('Postgres: database "nowhere" does not exist')
  })

  test('when a right is missing', async () => {
    await sql`CREATE ROLE stranger LOGIN PASSWORD 'stranger'`.execute(database.db)
    const asStranger = (url: URL): void => {
      url.username = 'stranger'
      url.password = 'stranger'
    }
    const error = await refusalAt(asStranger, sql`SELECT * FROM api_keys`)
    await sql`DROP ROLE stranger`.execute(database.db)
    expect(error).toMatchObject({ code: 'internal', retryable: false, needsOperator: true, cause: { code: '42501' } })
  })
})

describe('a failure that no retry can help passes unchanged', () => {
  test('when the statement is wrong', async () => {
    const error = await rejection(database.run((db) => sql`SELECT * FROM nowhere`.execute(db)))
    expect(error).not.toBeInstanceOf(AppError)
    expect(error).toMatchObject({ code: '42P01' })
  })

  test('when the URL is malformed', async () => {
    const postgres = openPostgres('postgres://user:pass@host:notaport/sluice')
    const error = await rejection(runQuery(postgres))
    expect(error).not.toBeInstanceOf(AppError)
    await postgres.close()
  })

  test('when it is an error of Sluice itself', async () => {
    const own = new AppError('conflict', { message: 'Conflict' })
    expect(await rejection(database.run(() => Promise.reject(own)))).toBe(own)
    expect(await rejection(database.run(() => Promise.reject(new TypeError('x is not a function'))))).toBeInstanceOf(
      TypeError,
    )
  })
})

describe('a pool whose network connection is cut', () => {
  let proxy: TcpProxy
  let postgres: Postgres
  const idleErrors: Error[] = []

  beforeAll(async () => {
    proxy = await tcpProxy(database.url)
    postgres = openPostgres(proxy.url, { onIdleError: (error) => idleErrors.push(error) })
  })

  afterAll(async () => {
    await postgres.close()
    await proxy.close()
  })

  /** On a busy machine, a connection may take longer than a pool waits for one. */
  const connectedAgain = () =>
    waitUntil(
      () =>
        runQuery(postgres).then(
          () => true,
          () => false,
        ),
      'a statement runs again',
    )

  test('reports the lost idle connections, rejects with 503, and reconnects by itself', async () => {
    await postgres.check()
    await proxy.cut()
    await waitUntil(() => idleErrors.length > 0, 'the idle connection is missed')
    expect(await rejection(runQuery(postgres))).toMatchObject(awayError)
    expect(await rejection(postgres.check())).toMatchObject(awayError)
    await proxy.mend()
    await connectedAgain()
    await postgres.check()
  })

  test('rejects with 503 after the connection time-out when the network hangs', async () => {
    await proxy.cut()
    await proxy.mend()
    proxy.freeze()
    const elapsedMs = startStopwatch()
    expect(await rejection(runQuery(postgres))).toMatchObject(awayError)
    expect(elapsedMs()).toBeLessThan(5_000)
    await proxy.mend()
    await connectedAgain()
  })
})

describe('a host that vanishes without a reset', () => {
  let proxy: TcpProxy

  beforeAll(async () => {
    proxy = await tcpProxy(database.url)
  })

  afterAll(async () => {
    await proxy.close()
  })

  const inTransaction = (postgres: Postgres) =>
    postgres.transaction((transaction) => sql`SELECT 1`.execute(transaction))

  test.each([
    ['a statement', runQuery],
    ['a transaction', inTransaction],
    ['a check', (postgres: Postgres) => postgres.check()],
  ])('%s that gets no answer fails with 503, and the next one has a new connection', async (_what, work) => {
    const postgres = openPostgres(proxy.url, { poolSize: 1, queryTimeoutMs: 2_000, ...patientPostgres })
    await postgres.check()
    proxy.strand()
    expect(await rejection(work(postgres))).toMatchObject(awayError)
    await work(postgres)
    await postgres.close()
  })

  test('a transaction whose statement gets no answer fails with 503, and its connection is not used again', async () => {
    const postgres = openPostgres(proxy.url, { poolSize: 1, queryTimeoutMs: 2_000, ...patientPostgres })
    const interrupted = postgres.transaction(async (transaction) => {
      await sql`SELECT 1`.execute(transaction)
      proxy.strand()
      await sql`SELECT 1`.execute(transaction)
    })
    expect(await rejection(interrupted)).toMatchObject(awayError)
    await runQuery(postgres)
    await postgres.close()
  })

  test('the kernel probes idle connections', async () => {
    const postgres = openPostgres(proxy.url, { poolSize: 1 })
    await postgres.check()
    // The field tr of /proc/net/tcp is 02 while a keep-alive timer runs, see proc_net_tcp.txt of the kernel.
    const port = proxy.port.toString(16).toUpperCase().padStart(4, '0')
    const sockets = (await readFile('/proc/self/net/tcp', 'utf8')).split('\n').map((line) => line.trim().split(/\s+/))
    const timers = sockets
      .filter(([, , remote = '', state]) => remote.endsWith(`:${port}`) && state === '01')
      .map(([, , , , , timer]) => timer?.slice(0, 2))
    expect(timers).toContain('02')
    await postgres.close()
  })
})

describe('the server', () => {
  const holdLock = async (postgres: Postgres, until: Promise<unknown>, entered: () => void) =>
    postgres.transaction(async (transaction) => {
      await sql`SELECT pg_advisory_xact_lock(1)`.execute(transaction)
      entered()
      await until
    })

  test('ends a statement before the client gives it up', async () => {
    const postgres = openPostgres(database.url, { queryTimeoutMs: 5_000 })
    const error = (await rejection(postgres.run((db) => sql`SELECT pg_sleep(60)`.execute(db)))) as AppError
    expect(error).toMatchObject({ ...awayError, cause: { code: '57014' } })
    await postgres.close()
  })

  test('ends a transaction whose process hangs, so that others get its locks', async () => {
    const hanging = openPostgres(database.url, { queryTimeoutMs: 2_000 })
    const patient = openPostgres(database.url, { queryTimeoutMs: 0 })
    const entered = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const held = rejection(holdLock(hanging, gate.promise, () => entered.resolve(undefined)))
    await entered.promise
    // Waits without a limit.
    await holdLock(patient, Promise.resolve(), () => undefined)
    gate.resolve(undefined)
    expect(await held).toMatchObject(awayError)
    await hanging.close()
    await patient.close()
  })

  test('ends the wait for a lock with 503 before the statement', async () => {
    const [holder, waiter] = [database, openPostgres(database.url, { queryTimeoutMs: 5_000 })]
    const entered = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const held = holdLock(holder, gate.promise, () => entered.resolve(undefined))
    await entered.promise
    const refused = await rejection(holdLock(waiter, Promise.resolve(), () => undefined))
    expect(refused).toMatchObject({ ...awayError, cause: { code: '55P03' } })
    gate.resolve(undefined)
    await held
    await waiter.close()
  })
})

test('a command that fails does not wait for the statements that it has left running', async () => {
  const left: Promise<unknown>[] = []
  await database.db.transaction().execute(async (transaction) => {
    await sql`SELECT pg_advisory_xact_lock(1)`.execute(transaction)
    const command = withPostgres(database.url, { queryTimeoutMs: 0 }, async ({ db }) => {
      left.push(sql`SELECT pg_advisory_xact_lock(1)`.execute(db))
      const isWaiting = async () => {
        const { rows } = await sql`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`.execute(
          transaction,
        )
        return rows.length > 0
      }
      await waitUntil(isWaiting, 'the statement waits for the lock')
      throw new Error('the lock was lost')
    })
    await expect(command).rejects.toThrow('the lock was lost')
  })
  await Promise.all(left)
})

test('a pool opens no connection before it is used', async () => {
  let connections = 0
  const server = createServer((socket) => {
    connections++
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const postgres = openPostgres(`postgres://user:pass@127.0.0.1:${(server.address() as AddressInfo).port}/sluice`)
    // A connection of the pool would be accepted before this one.
    const probe = connect((server.address() as AddressInfo).port, '127.0.0.1')
    await once(probe, 'close')
    await postgres.close()
    expect(connections).toBe(1)
  } finally {
    server.close()
  }
})
