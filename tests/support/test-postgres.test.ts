import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { Postgres } from '@sluice/postgres/open'
import { lockAwaited, openTestPostgres, type TestPostgres } from './test-postgres.ts'

let one: TestPostgres
let other: TestPostgres
beforeAll(async () => {
  ;[one, other] = await Promise.all([openTestPostgres(), openTestPostgres()])
})
afterAll(() => Promise.all([one.drop(), other.drop()]))

/** Locks a row in a transaction, and starts another transaction that waits for the row. */
async function whileWaiting({ db }: Postgres, work: () => Promise<unknown>): Promise<void> {
  const lockRow = sql`SELECT FROM kysely_migration ORDER BY name LIMIT 1 FOR UPDATE`
  let waiting: Promise<unknown> | undefined
  await db.transaction().execute(async (transaction) => {
    await lockRow.execute(transaction)
    waiting = lockRow.execute(db)
    await work()
  })
  await waiting
}

test('a transaction that waits is seen in its own database, and not in another one', async () => {
  await whileWaiting(other, async () => {
    await lockAwaited(other)
    let isSeen = false
    const seen = lockAwaited(one).then(() => (isSeen = true))
    // Many answers from the other database later, its wait is still not seen in this one.
    for (let i = 0; i < 20; i++) await lockAwaited(other)
    expect(isSeen).toBe(false)
    await whileWaiting(one, () => seen)
  })
})
