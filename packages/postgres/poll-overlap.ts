import { sql } from 'kysely'

/** Statements may commit this much later than the `changed_at` that they carry; each poll looks back so far. */
export const pollOverlap = sql`interval '10 seconds'`
