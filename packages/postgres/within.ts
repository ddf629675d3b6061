import type { Postgres } from './open.ts'
import type { Db } from './tables.ts'

/** A Postgres whose work is done in this transaction. */
export function within(postgres: Postgres, transaction: Db): Postgres {
  return {
    ...postgres,
    db: transaction,
    run: (work) => work(transaction),
    transaction: (work) => work(transaction),
  }
}
