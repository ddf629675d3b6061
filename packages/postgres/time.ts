import { sql } from 'kysely'
import type { Postgres } from './open.ts'

/**
 * Returns the time of Postgres's clock in Unix ms, with fractions. Throws AppError `unavailable` while Postgres is
 * unavailable.
 */
export async function postgresTime(postgres: Pick<Postgres, 'run'>): Promise<number> {
  return postgres.run(async (db) => {
    // Not now(), which is the start of the transaction.
    const { rows } = await sql<{ time: number }>`
      SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS time`.execute(db)
    const [row] = rows
    if (row === undefined) throw new Error('Postgres returned no time')
    return row.time
  })
}

/**
 * Converts a time of a record, in Unix ms, to the value of its column. Null stays null, and undefined, for a column that
 * is left out, stays undefined.
 */
export function toDate<Absent extends null | undefined = never>(ms: number | Absent): Date | Absent {
  return typeof ms === 'number' ? new Date(ms) : ms
}
