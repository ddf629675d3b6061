import {
  type ByteResult,
  type ClickHouseAddress,
  type ClickHouseSettings,
  openClickHouseAt,
  parseClickHouseUrl,
} from '../client.ts'
import { readingAddress } from '../cluster.ts'
import { externalTableClient } from '../external-table.ts'
import { queryReader, type QueryRunner, type Statement } from '../query-runner.ts'
import { statementMemory } from '../statement-memory.ts'
import { type ExportRows, formatStatement, type RowsFormat } from './row-formats.ts'

/** The event store for services that export. */
export interface ExportReader {
  /** Runs statements with small results, behind those of people who wait, and for as long as `read` may take. */
  runner(signal: AbortSignal): QueryRunner
  /**
   * Writes rows in a format. ClickHouse has them all when the call resolves, in memory or on its disk, and knows their
   * number: what is read is never cut off by a statement that fails. Throws ClickHouseError.
   */
  read(rows: ExportRows, format: RowsFormat, signal: AbortSignal): Promise<ByteResult>
  close(): Promise<void>
}

const executionSecondsMax = 3_600
/** Nothing comes before ClickHouse has finished a result, or says that it took too long. */
const requestTimeoutMs = (executionSecondsMax + 60) * 1_000
const postTimeoutMs = 60_000

/** A file takes as long as it takes, but in memory and threads that leave the others theirs. */
const settings: ClickHouseSettings = {
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
  max_execution_time: executionSecondsMax,
  max_bytes_before_external_group_by: '1000000000',
  max_bytes_before_external_sort: '1000000000',
  max_threads: 2,
  optimize_read_in_order: 1,
  // A lower number goes first: behind every interactive statement (query-runner.ts).
  priority: '16',
}

/** Opens no connection before the first use. Throws TypeError for a URL that names no ClickHouse. */
export function openExportReader(url: string): ExportReader {
  return openExportReaderAt(parseClickHouseUrl(url))
}

/** As `openExportReader`, for an address whose URL was split already. */
export function openExportReaderAt(storeAddress: ClickHouseAddress): ExportReader {
  const address = readingAddress(storeAddress)
  const client = openClickHouseAt(address, { requestTimeoutMs })
  const memoryMax = statementMemory(client)
  const reader = queryReader(client, { isSharded: address.cluster !== undefined, executionSecondsMax, memoryMax })
  const externalTables = externalTableClient(address)

  /** The rows of analyses, which are few. */
  async function post(
    { sql, params }: Statement,
    { structure, lines, count }: NonNullable<ExportRows['posted']>,
    statementSettings: ClickHouseSettings,
  ): Promise<ByteResult> {
    // With several threads, the blocks of the table come in any order.
    const { body } = await externalTables.post({
      sql,
      params,
      structure,
      payloads: [lines],
      settings: asStrings({ ...statementSettings, max_threads: 1 }),
      timeoutMs: postTimeoutMs,
    })
    return { bytes: once(body), rows: count }
  }

  return {
    runner: (signal) => reader.as({ key: 'exports', signal, priority: 'background' }),
    read: async (rows, format, signal) => {
      const { sql, params, settings: formatSettings } = formatStatement(rows, format)
      const statementSettings = { ...settings, max_memory_usage: String(await memoryMax()), ...formatSettings }
      // The driver notices a signal only if it aborts after the call.
      signal.throwIfAborted()
      return rows.posted
        ? post({ sql, params }, rows.posted, statementSettings)
        : client.read(sql, params, { signal, settings: statementSettings })
    },
    close: async () => {
      externalTables.close()
      await client.close()
    },
  }
}

function asStrings(values: object): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)]))
}

async function* once(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(body)
}
