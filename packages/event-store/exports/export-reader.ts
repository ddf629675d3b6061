import type { ExportFormat } from '@sluice/contracts/exports'
import {
  type ByteResult,
  type ClickHouseAddress,
  type ClickHouseSettings,
  openClickHouseAt,
  parseClickHouseUrl,
} from '../clickhouse/client.ts'
import { readingAddress } from '../clickhouse/cluster.ts'
import { ClickHouseError } from '../clickhouse/errors.ts'
import { externalTableClient } from '../clickhouse/external-table.ts'
import { queryReader, type QueryRunner, type Statement } from '../clickhouse/query-runner.ts'
import { statementMemory } from '../clickhouse/statement-memory.ts'
import { type ExportRows, formatStatement, resultEnds, type RowsFormat } from './row-formats.ts'

/** The event store for services that export. */
export interface ExportReader {
  /**
   * Runs statements with small results. They have a lower priority than interactive statements, and the same time limit
   * as `read`.
   */
  runnerFor(signal: AbortSignal): QueryRunner
  /**
   * Writes rows in a format. When the call resolves, ClickHouse has completed the result, in memory or on its disk, and
   * knows the number of rows. A failure of the statement therefore never cuts the result off. Throws ClickHouseError,
   * which reading the bytes does too when they lack their end.
   */
  read(rows: ExportRows, format: RowsFormat, signal: AbortSignal): Promise<ByteResult>
  close(): Promise<void>
}

const executionSecondsMax = 3_600
/** ClickHouse sends nothing before a result is complete, or before it reports that the statement took too long. */
const requestTimeoutMs = (executionSecondsMax + 60) * 1_000
const postTimeoutMs = 60_000
/** As many bytes as the longest end of a format has. */
const lastBytes = 4

/**
 * The statement of a file may take long, but its memory and threads are limited, so that other statements are not
 * slowed down.
 */
const settings: ClickHouseSettings = {
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
  max_execution_time: executionSecondsMax,
  max_bytes_before_external_group_by: '1000000000',
  max_bytes_before_external_sort: '1000000000',
  max_threads: 2,
  optimize_read_in_order: 1,
  // ClickHouse prefers lower numbers, and interactive statements have lower ones (query-runner.ts).
  priority: '16',
}

/** Opens no connection before the first use. Throws TypeError for a URL that names no ClickHouse. */
export function openExportReader(url: string): ExportReader {
  return openExportReaderAt(parseClickHouseUrl(url))
}

/** Opens a reader for an address whose URL was already split. */
export function openExportReaderAt(storeAddress: ClickHouseAddress): ExportReader {
  const address = readingAddress(storeAddress)
  const client = openClickHouseAt(address, { requestTimeoutMs })
  const memoryMax = statementMemory(client)
  const reader = queryReader(client, { isSharded: address.cluster !== undefined, executionSecondsMax, memoryMax })
  const externalTables = externalTableClient(address, { mayHaveBadRows: false })

  /** Writes the few rows of an analysis, which are posted with the statement. */
  async function post(
    { sql, params }: Statement,
    { structure, lines, count }: NonNullable<ExportRows['posted']>,
    statementSettings: ClickHouseSettings,
  ): Promise<ByteResult> {
    // With several threads, ClickHouse would read the blocks of the table in any order.
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
    runnerFor: (signal) => reader.runnerFor({ key: 'exports', signal, priority: 'background' }),
    read: async (rows, format, signal) => {
      const { sql, params, settings: formatSettings } = formatStatement(rows, format)
      const statementSettings = { ...settings, max_memory_usage: String(await memoryMax()), ...formatSettings }
      // The driver notices a signal only if it aborts after the call.
      signal.throwIfAborted()
      const result = rows.posted
        ? await post({ sql, params }, rows.posted, statementSettings)
        : await client.read(sql, params, { signal, settings: statementSettings })
      return { ...result, bytes: wholeBytes(result, format.format) }
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

/**
 * Yields the bytes of a result. Throws ClickHouseError when they do not end as its format does: a ClickHouse that can't
 * spool a result to its full disk answers 200, with the summary of all rows and without a byte of them.
 */
async function* wholeBytes({ bytes, rows }: ByteResult, format: ExportFormat): AsyncGenerator<Uint8Array> {
  // A Parquet file without rows has its schema.
  const end = rows > 0 || format === 'parquet' ? resultEnds[format] : ''
  let last = Buffer.alloc(0)
  for await (const chunk of bytes) {
    last = Buffer.concat([last, chunk.subarray(-lastBytes)]).subarray(-lastBytes)
    yield chunk
  }
  if (!last.toString('latin1').endsWith(end))
    throw new ClickHouseError(undefined, `the result of ${rows} rows lacks its end: the disk of ClickHouse may be full`)
}

async function* once(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(body)
}
