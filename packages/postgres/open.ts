import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient, sql } from 'kysely'
import { Pool } from 'pg'
import { settledOrAfter } from '@sluice/runtime/deadline'
import { AppError, errorCode, internalError, internalMessage, unavailable } from '@sluice/runtime/errors'
import { tracedCall } from '@sluice/runtime/tracing'
import type { Db, Tables } from './tables.ts'

/** A pool of connections to Postgres. */
export interface Postgres {
  readonly db: Db
  /**
   * Runs database work. Failures that a later attempt may not have become AppError `unavailable`, which is retryable.
   * Refusals that last until an operator changes something become AppError with `needsOperator`: `unavailable` where
   * Postgres refuses the user or the password, which may be being changed, else `internal`. Other failures are not
   * changed. Every store uses this method.
   */
  run<T>(work: (db: Db) => Promise<T>): Promise<T>
  /**
   * Runs database work in one transaction. It is committed when the promise of `work` has resolved, and rolled back
   * when that rejects. Failures become those of `run`.
   */
  transaction<T>(work: (transaction: Db) => Promise<T>): Promise<T>
  /** Resolves when Postgres replies; rejects with AppError `unavailable` while it is unavailable. */
  check(): Promise<void>
  close(): Promise<void>
}

export interface PostgresOptions {
  poolSize?: number
  /**
   * If a statement gets no answer for this many ms, it fails and its connection is closed. Before that, the server ends
   * statements, waits for locks and idle transactions. 0: no limits. Default: 10 s.
   */
  queryTimeoutMs?: number
  /**
   * If a statement waits for a lock for this many ms, the server ends it. 0: no limit. Default: 40 % of
   * `queryTimeoutMs`.
   */
  lockTimeoutMs?: number
  /** A call that gets no connection within this many ms fails. Default: 5 s. */
  connectTimeoutMs?: number
  /** Called when an idle connection has broken; the pool replaces it. */
  onIdleError?: (error: Error) => void
}

const defaultQueryTimeoutMs = 10_000
/** The first page of a dashboard needs ten connections at once, and a busy server takes seconds for each. */
const defaultConnectTimeoutMs = 5_000
/** An idle connection to a host that has vanished is closed about 10 s after the first unanswered probe. */
const keepAliveAfterMs = 10_000

/** Creates a pool of connections to the database at `url`; the first one is opened at the first use. */
export function openPostgres(url: string, options: PostgresOptions = {}): Postgres {
  const queryTimeoutMs = options.queryTimeoutMs ?? defaultQueryTimeoutMs
  const pool = new Pool({
    connectionString: url,
    max: options.poolSize ?? 10,
    connectionTimeoutMillis: options.connectTimeoutMs ?? defaultConnectTimeoutMs,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
    query_timeout: queryTimeoutMs,
    ...serverTimeouts(queryTimeoutMs, options.lockTimeoutMs),
    application_name: 'sluice',
  })
  pool.on('error', (error) => options.onIdleError?.(error))
  // If a connection breaks during a statement, the statement fails, and the client also emits `error`. Without a
  // listener, that event would end the process.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: closingUnusable(pool) }) })

  async function run<T>(work: (db: Db) => Promise<T>): Promise<T> {
    try {
      return await tracedCall('postgres', { 'db.system.name': 'postgresql' }, () => work(db))
    } catch (error) {
      throw toAppError(error)
    }
  }

  return {
    db,
    run,
    transaction: (work) => run((db) => db.transaction().execute(work)),
    check: () =>
      run(async () => {
        await sql`SELECT 1`.execute(db)
      }),
    close: () => db.destroy(),
  }
}

/** How long a command waits for its connections to be closed. */
const closeTimeoutMs = 1_000

/**
 * Runs the work of a command with the database at `url`, and closes the connections. Statements that work has left
 * running are not awaited: work that fails because its lock was lost may have some without a limit of time.
 */
export async function withPostgres<T>(
  url: string,
  options: PostgresOptions,
  work: (postgres: Postgres) => Promise<T>,
): Promise<T> {
  const postgres = openPostgres(url, options)
  try {
    return await work(postgres)
  } finally {
    await settledOrAfter(postgres.close(), closeTimeoutMs)
  }
}

/**
 * The server's limits are below the client's. The server has therefore ended a statement before the client stops
 * waiting for it. A process that hangs or disappears during a transaction does not keep its locks. Postgres takes 0 as
 * no limit, also where the role or the database has one. pg sends the text, but not the number.
 */
function serverTimeouts(queryTimeoutMs: number, lockTimeoutMs = queryTimeoutMs * 0.4) {
  const asText = (ms: number): number => String(Math.round(ms)) as unknown as number
  return {
    statement_timeout: asText(queryTimeoutMs * 0.8),
    idle_in_transaction_session_timeout: asText(queryTimeoutMs * 0.8),
    lock_timeout: asText(lockTimeoutMs),
  }
}

/**
 * The pool for `db`. It differs from pg's pool in that it closes a connection after a statement got no answer within
 * the client's time-out. pg would return such a connection to the pool, and each further statement on it would wait
 * behind the first: if the host has disappeared without a reset, until the kernel gives up after 15 minutes. A
 * connection to a standby is closed too, because a proxy may keep it open after the failover.
 */
function closingUnusable(pool: Pool): PostgresPool {
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      const client = await pool.connect()
      let timeout: Error | undefined
      let isStandby = false
      const query = async (text: string, values: unknown[]) => {
        // This is the ROLLBACK of a transaction whose statement timed out.
        if (timeout !== undefined) throw timeout
        try {
          return await client.query(text, values)
        } catch (error) {
          if (isQueryTimeout(error)) timeout = error
          if (errorCode(error) === readOnlyCode) isStandby = true
          throw error
        }
      }
      // pg closes a connection at once while a statement runs on it.
      const release = (isBroken?: boolean) => client.release(isBroken === true || isStandby || timeout !== undefined)
      return { query, release } as unknown as PostgresPoolClient
    },
  }
}

/** The SQLSTATE with which a server that is read-only refuses a write. */
const readOnlyCode = '25006'

/** pg gives the error of `query_timeout` no code. */
function isQueryTimeout(error: unknown): error is Error {
  return error instanceof Error && error.message === 'Query read timeout'
}

/** The class of SQLSTATEs with which Postgres refuses the user or the password, also by pg_hba.conf. */
const refusedUserClass = '28'
/** The SQLSTATEs of a missing database and of a missing right. */
const operatorCodes: readonly unknown[] = ['3D000', '42501']

/** The AppError that `run` promises for a failure; any other failure as it is. */
function toAppError(error: unknown): unknown {
  if (error instanceof AppError) return error
  const code = errorCode(error)
  const internal = `Postgres: ${internalMessage(error)}`
  if (code?.startsWith(refusedUserClass) === true) {
    const message = 'Service temporarily unavailable'
    const properties = { retryable: true, retryAfterSeconds: 1, needsOperator: true, cause: error }
    return new AppError('unavailable', { message, internal, ...properties })
  }
  if (operatorCodes.includes(code)) return internalError(internal, error)
  return isTransientFailure(error) ? unavailable(internal, error) : error
}

/**
 * True for failures after which the same statement may succeed later. These are connection failures of the system
 * (ECONNREFUSED …) and of pg (no SQLSTATE), and the SQLSTATE classes 08 (connection), 40 (rollback, for example after a
 * deadlock), 53 (resources) and 57P (shutdown). Also the server's time-outs 57014 (statement), 55P03 (lock), 25P03
 * (idle transaction) and 25P04 (transaction), and 25006, with which a standby refuses writes, for example during a failover. Codes of Node
 * (ERR_INVALID_URL …) are permanent mistakes.
 */
function isTransientFailure(error: unknown): boolean {
  const code = errorCode(error)
  if (code === readOnlyCode) return true
  if (code === undefined) return error instanceof Error && /timeout|terminated|connection/i.test(error.message)
  return /^(08|40|53|57P|57014|55P03|25P0[34])/.test(code) || (/^E[A-Z_]+$/.test(code) && !code.startsWith('ERR_'))
}
