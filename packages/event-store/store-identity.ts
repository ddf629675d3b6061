import { AppError } from '@sluice/runtime/errors'
import type { ClickHouse } from './client.ts'

/** Text of a refused insert, with what an operator does about it. */
export const oneServerText =
  'SLUICE_CLICKHOUSE_URL leads to another ClickHouse server than the one that "npm run migrate" prepared or that this ' +
  'process found first. Events are stored exactly once on one server only: put its own address there, not that of a ' +
  'load balancer or of a cluster. After a move to another server, run "npm run migrate" and start the writers again.'

/** Selects a store's identity. */
const storedIdentitySql = '(SELECT (id, server) FROM store FINAL)'

/**
 * A condition of inserts that fails on every other server than that of the store `{store:UUID}`, whichever connection
 * brought the statement there.
 */
export const isOwnServer = `throwIf(${storedIdentitySql} != ({store:UUID}, serverUUID()), 'another server') = 0`

/**
 * The only engine that stores events exactly once. The lock of an insert (its `query_id`) and the search for rows that are
 * stored already are of one server; the tables of a cluster take inserts on several.
 */
const engineWanted = 'ReplacingMergeTree'

/**
 * The store's UUID, which `migrate` gave it. Throws AppError, with what to do, when the server is not the one that
 * `migrate` prepared, or when `events` is a table of a cluster; ClickHouseError while ClickHouse can't answer.
 */
export async function readStoreId(clickHouse: Pick<ClickHouse, 'query'>): Promise<string> {
  const { rows } = await clickHouse.query<{ id: string; is_own: number; engine: string }>(
    `SELECT toString(id) AS id, server = serverUUID() AS is_own,
       (SELECT any(engine) FROM system.tables WHERE database = currentDatabase() AND name = 'events') AS engine
     FROM store FINAL`,
  )
  const [store] = rows
  if (rows.length !== 1 || store === undefined) {
    throw refused(`The ClickHouse table store has ${rows.length} rows instead of one. Run "npm run migrate".`)
  }
  if (store.is_own !== 1) throw refused(oneServerText)
  // A table that is missing refuses inserts itself.
  if (store.engine !== '' && store.engine !== engineWanted) {
    throw refused(
      `The ClickHouse table events has the engine ${store.engine}. Events are stored exactly once with ${engineWanted} ` +
        'only, on one server: put the address of a server with such a table into SLUICE_CLICKHOUSE_URL.',
    )
  }
  return store.id
}

/** Records the server that the store is on now; after a move it is another one than before. */
export async function recordServer(clickHouse: Pick<ClickHouse, 'command'>): Promise<void> {
  await clickHouse.command(
    'INSERT INTO store (id, server) SELECT id, serverUUID() FROM store FINAL WHERE server != serverUUID()',
  )
}

function refused(internal: string): AppError {
  return new AppError('internal', { message: 'Internal server error', internal })
}
