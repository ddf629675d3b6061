import { sleep } from '@sluice/runtime/sleep'
import type { ClickHouse } from './client.ts'

const pollMs = 100

/** What `waitForStatements` waits for. */
interface Awaited {
  /** Values of ClickHouse's column `query_kind`. */
  kinds: readonly ('Insert' | 'Delete' | 'Alter' | 'Update' | 'Drop')[]
  signal?: AbortSignal
}

/**
 * Waits until every statement of the database and of these kinds that runs at the time of the call has ended. Rejects
 * when `signal` aborts.
 *
 * Query ids are reused, so a running statement is identified by its id and age: if the age of an id has become lower,
 * another statement has that id. Ages and not times are compared, because the clock of a suspended machine is wrong.
 */
export async function waitForStatements(
  clickHouse: Pick<ClickHouse, 'query'>,
  database: string,
  { kinds, signal }: Awaited,
): Promise<void> {
  let earlier = await runningStatements(clickHouse, database, kinds)
  while (earlier.size > 0) {
    await sleep(pollMs, signal)
    signal?.throwIfAborted()
    const running = await runningStatements(clickHouse, database, kinds)
    earlier = new Map([...running].filter(([id, age]) => age >= (earlier.get(id) ?? Infinity)))
  }
}

async function runningStatements(
  clickHouse: Pick<ClickHouse, 'query'>,
  database: string,
  kinds: readonly string[],
): Promise<Map<string, number>> {
  const { rows } = await clickHouse.query<{ id: string; age: number }>(
    `SELECT query_id AS id, max(elapsed) AS age FROM system.processes
     WHERE query_kind IN {kinds:Array(String)} AND current_database = {database:String} GROUP BY id`,
    { kinds, database },
  )
  return new Map(rows.map(({ id, age }) => [id, age]))
}
