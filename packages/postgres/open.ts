import { SluiceError, unavailable } from '@sluice/contracts/errors'
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

/**
 * A pool by URL; opens no connection before the first use.
 * `onIdleError` hears of connections that broke while idle (they are replaced by themselves).
 */
export function openPostgres(
  url: string,
  options: { poolSize?: number; onIdleError?: (error: Error) => void } = {},
): Postgres {
  const pool = new Pool({
    connectionString: url,
    max: options.poolSize ?? 10,
    connectionTimeoutMillis: 2_000,
    idleTimeoutMillis: 30_000,
    query_timeout: 10_000,
    application_name: 'sluice',
  })
  pool.on('error', (error) => options.onIdleError?.(error))
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
 * Connection failures of Node (ECONNREFUSED …) and of pg itself (no SQLSTATE), and the SQLSTATE classes 08
 * (connection), 53 (resources) and 57P (shutting down): the same statement may work later.
 */
function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  if (code === undefined) return /timeout|terminated|Connection/i.test(error.message)
  return /^(08|53|57P)/.test(code) || /^E[A-Z_]+$/.test(code)
}
