import { errorCode, SluiceError, unavailable } from '@sluice/contracts/errors'
import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import type { Tables } from './tables.ts'

export interface Postgres {
  readonly db: Kysely<Tables>
  /**
   * Runs database work and turns "Postgres is away" into SluiceError 503, retryable; other failures pass unchanged.
   * Every store goes through it.
   */
  run<T>(work: (db: Kysely<Tables>) => Promise<T>): Promise<T>
  /** Resolves when Postgres answers; rejects with the reason otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}

export interface PostgresOptions {
  poolSize?: number
  /** Longest time of one statement in ms; 0: none. Default 10 s. */
  queryTimeoutMs?: number
  /** Hears of connections that broke while idle (they are replaced by themselves). */
  onIdleError?: (error: Error) => void
}

/** A pool by URL; opens no connection before the first use. */
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
  // A connection that breaks while a statement runs fails the statement, and emits this as well: without a listener
  // it would end the process.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })

  async function run<T>(work: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
    try {
      return await work(db)
    } catch (error) {
      if (!(error instanceof SluiceError) && isAway(error)) {
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
 * Connection failures of the system (ECONNREFUSED …) and of pg itself (no SQLSTATE), and the SQLSTATE classes 08
 * (connection), 40 (rolled back: deadlocks), 53 (resources), 57P (shutting down), and 55P03 (a lock that took too long):
 * the same statement may work later.
 * Node's own codes (ERR_INVALID_URL …) are mistakes that no time mends.
 */
function isAway(error: unknown): boolean {
  const code = errorCode(error)
  if (code === undefined) return error instanceof Error && /timeout|terminated|connection/i.test(error.message)
  return /^(08|40|53|57P|55P03)/.test(code) || (/^E[A-Z_]+$/.test(code) && !code.startsWith('ERR_'))
}
