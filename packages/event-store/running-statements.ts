import { sleep } from '@sluice/runtime/supervisor'
import type { ClickHouse } from './client.ts'

const pollMs = 100

/** What `waitForStatements` waits for. */
interface Awaited {
  /** As ClickHouse's `query_kind` has them. */
  kinds: readonly ('Insert' | 'Delete' | 'Alter' | 'Update' | 'Drop')[]
  signal?: AbortSignal
}

/**
 * Waits until every statement of the database and of these kinds has ended that is under way at the call. Rejects when
 * `signal` aborts.
 *
 * A running statement is known by its query id and by its age, because ids are used again: an id whose query is younger
 * than before is another one's. No clocks are compared, which a suspended machine would set back.
 */
export async function waitForStatements(
  clickHouse: Pick<ClickHouse, 'query'>,
  database: string,
  { kinds, signal = new AbortController().signal }: Awaited,
): Promise<void> {
  let earlier = await runningStatements(clickHouse, database, kinds)
  while (earlier.size > 0) {
    await sleep(pollMs, signal)
    signal.throwIfAborted()
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
