import { openClickHouseAt, parseClickHouseUrl } from './client.ts'
import { readingAddress } from './cluster.ts'
import { checkClickHouseSchema } from './migrate.ts'
import { type QueryReader, queryReader, type QueryReaderOptions } from './query-runner.ts'
import { statementMemory } from './statement-memory.ts'
import { checkReaderShards } from './store-identity.ts'

/** The event store for services that read: its URL may name a user with read access only. */
export interface EventReader extends QueryReader {
  /**
   * Resolves when ClickHouse, every server of a cluster, answers a query as this user; throws ClickHouseError
   * otherwise.
   */
  check(): Promise<void>
  /**
   * Throws AppError when this build can't work with the schema, or when the URL leads to a part of the store;
   * ClickHouseError while it is unknown.
   */
  checkSchema(): Promise<void>
  close(): Promise<void>
}

/** ClickHouse ends a statement after 30 s; a ClickHouse that hangs must not hold callers much longer. */
const requestTimeoutMs = 31_000

/** The same as for the check of one server, in ms. */
const checkTimeoutMs = 2_000

/** Opens no connection before the first use. Throws TypeError for a URL that names no ClickHouse. */
export function openEventReader(url: string, options: QueryReaderOptions = {}): EventReader {
  const address = readingAddress(parseClickHouseUrl(url))
  const client = openClickHouseAt(address, { requestTimeoutMs })
  const isSharded = address.cluster !== undefined
  return {
    ...queryReader(client, { memoryMax: statementMemory(client), ...options, isSharded }),
    check: async () => {
      if (!isSharded) return client.check()
      await client.query('SELECT count() FROM store', {}, { signal: AbortSignal.timeout(checkTimeoutMs) })
    },
    checkSchema: async () => {
      await checkClickHouseSchema(client, { isSharded })
      await checkReaderShards(client)
    },
    close: () => client.close(),
  }
}
