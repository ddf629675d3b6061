import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import { AppError, errorCode, unavailable } from '@sluice/runtime/errors'
import type { Tables } from './tables.ts'

export interface Postgres {
  readonly db: Kysely<Tables>
  /**
   * Runs database work. Failures that a later attempt may not have become AppError 503, retryable; other failures pass
   * unchanged. Every store uses it.
   */
  run<T>(work: (db: Kysely<Tables>) => Promise<T>): Promise<T>
  /** Resolves when Postgres replies; rejects with AppError 503 while it is away. */
  check(): Promise<void>
  close(): Promise<void>
}

export interface PostgresOptions {
  poolSize?: number
  /** The maximum duration of one statement in ms; 0: no maximum. Default: 10 s. */
  queryTimeoutMs?: number
  /** Called when an idle connection has broken; the pool replaces it. */
  onIdleError?: (error: Error) => void
}

/** Creates a pool of connections to the database at `url`; the first one is opened at the first use. */
export function openPostgres(url: string, options: PostgresOptions = {}): Postgres {
  const pool = new Pool({
    connectionString: url,
    max: options.poolSize ?? 10,
    connectionTimeoutMillis: 2_000,
    idleTimeoutMillis: 30_000,
    query_timeout: options.queryTimeoutMs ?? 10_000,
    application_name: 'sluice',
  })
  pool.on('error', (error) => options.onIdleError?.(error))
  // A connection that breaks during a statement makes the statement fail and emits `error` as well, which would end the
  // process without a listener.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })

  async function run<T>(work: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
    try {
      return await work(db)
    } catch (error) {
      if (!(error instanceof AppError) && isTransientFailure(error)) {
        throw unavailable(`Postgres: ${error instanceof Error ? error.message : String(error)}`, error)
      }
      throw error
    }
  }

  return {
    db,
    run,
    check: () =>
      run(async () => {
        await pool.query('SELECT 1')
      }),
    close: () => db.destroy(),
  }
}

/**
 * True for failures after which the same statement may succeed later: connection failures of the system (ECONNREFUSED …)
 * and of pg itself (no SQLSTATE), the SQLSTATE classes 08 (connection), 40 (rolled back: deadlocks), 53 (resources),
 * 57P (shutdown), and 55P03 (lock time-out). Codes of Node (ERR_INVALID_URL …) are permanent mistakes.
 */
function isTransientFailure(error: unknown): boolean {
  const code = errorCode(error)
  if (code === undefined) return error instanceof Error && /timeout|terminated|connection/i.test(error.message)
  return /^(08|40|53|57P|55P03)/.test(code) || (/^E[A-Z_]+$/.test(code) && !code.startsWith('ERR_'))
}
