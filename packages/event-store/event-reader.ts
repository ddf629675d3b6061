import { openClickHouse } from './client.ts'
import { checkClickHouseSchema } from './migrate.ts'
import { type QueryRunnerOptions, type QueryRunners, queryRunners } from './query-runner.ts'

/** The event store for services that read: its URL may name a user with read access only. */
export interface EventReader extends QueryRunners {
  /** Resolves when ClickHouse answers a query as this user; throws ClickHouseError otherwise. */
  check(): Promise<void>
  /** Throws AppError when this build can't work with the schema, and ClickHouseError while it is unknown. */
  checkSchema(): Promise<void>
  close(): Promise<void>
}

/** ClickHouse ends a statement after 30 s by itself; a ClickHouse that hangs must not hold callers much longer. */
const requestTimeoutMs = 31_000

/** Opens no connection before the first use. Throws TypeError for a URL that names no ClickHouse. */
export function openEventReader(url: string, options: QueryRunnerOptions = {}): EventReader {
  const client = openClickHouse(url, { requestTimeoutMs })
  return {
    ...queryRunners(client, options),
    check: () => client.check(),
    checkSchema: () => checkClickHouseSchema(client),
    close: () => client.close(),
  }
}
