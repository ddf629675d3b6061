import { openClickHouseAt, parseClickHouseUrl } from './clickhouse/client.ts'
import { readingAddress } from './clickhouse/cluster.ts'
import { type QueryReader, queryReader, type QueryReaderOptions } from './clickhouse/query-runner.ts'
import { statementMemory } from './clickhouse/statement-memory.ts'
import { checkClickHouseSchema } from './migrate.ts'
import { checkReaderShards } from './store-identity.ts'

/** The event store for services that read: its URL may name a user with read access only. */
export interface EventReader extends QueryReader {
  /**
   * Resolves when ClickHouse answers a query as this user; with a cluster, every server must answer. Throws
   * ClickHouseError otherwise.
   */
  check(): Promise<void>
  /**
   * Throws AppError when this build can't work with the schema, or when the URL leads to only a part of the store.
   * Throws ClickHouseError while this is unknown.
   */
  checkSchema(): Promise<void>
  close(): Promise<void>
}

/** ClickHouse ends a statement after 30 s. If ClickHouse hangs, callers wait only a second longer. */
const requestTimeoutMs = 31_000

/** In ms, equal to the time limit of the check of one server. */
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
