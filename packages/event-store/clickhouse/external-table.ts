import { randomUUID } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { internalMessage } from '@sluice/runtime/errors'
import { sum } from '@sluice/runtime/sum'
import { type ClickHouseAddress, namedServer, noSummaryText } from './client.ts'
import { ClickHouseError } from './errors.ts'
import { keepAliveAgent } from './keep-alive-agent.ts'
import { type FormField, formText, type QueryParams, statementFields } from './multipart-statement.ts'
import { postedRowSettings, strictSettings } from './strict-settings.ts'

/** A statement with rows that are posted in the same request. */
export interface ExternalTableQuery {
  /** The statement; it reads the posted rows as table `b`. */
  sql: string
  /** Values of the statement's placeholders. */
  params?: QueryParams
  /** Columns of `b` with their types: `a String, b UInt8`. */
  structure: string
  /** JSON lines, in one piece or several. */
  payloads: readonly Buffer[]
  /** Settings, and a `query_id`. */
  settings: Readonly<Record<string, string>>
  /**
   * ClickHouse ends the query after this time, with code 159, unless `settings` has another `max_execution_time`. The
   * client waits some seconds longer for the response.
   */
  timeoutMs: number
}

export interface ExternalTableResult {
  body: Buffer
  text: string
  /** Rows that the query wrote, as ClickHouse counts them. */
  writtenRows: number
  /** Rows that the query read, from `b` and from tables. */
  readRows: number
}

/**
 * ClickHouse's own time-out has to come first: its code says that the query was too large, not that the server is
 * unavailable.
 */
const answerTimeoutMs = 5_000

/** Posts statements together with the rows of a table that only they see. */
export interface ExternalTableClient {
  /** Runs the query. Throws ClickHouseError, without `serverCode` when no answer arrived. */
  post(query: ExternalTableQuery): Promise<ExternalTableResult>
  close(): void
}

/**
 * The URL to which the rows are posted, and the fields of the multipart form. The rows follow the fields as the file
 * `b`. The statement is one of the fields, because an insert has up to 7 kB, and proxies refuse URLs of more than some
 * kilobytes.
 */
export function externalTableForm(
  address: ClickHouseAddress,
  { sql, params = {}, structure, settings, timeoutMs }: Omit<ExternalTableQuery, 'payloads'>,
): { url: string; fields: readonly FormField[] } {
  const search = new URLSearchParams({
    ...strictSettings,
    ...postedRowSettings,
    wait_end_of_query: '1',
    max_execution_time: String(Math.ceil(timeoutMs / 1000)),
    ...settings,
    database: address.database,
  })
  return {
    url: `${address.origin}/?${search.toString()}`,
    fields: [...statementFields(sql, params), ['b_format', 'JSONEachRow'], ['b_structure', structure]],
  }
}

/**
 * Creates a client that runs queries over rows in the same request: an HTTP external table (multipart), which
 * @clickhouse/client does not support. Connections stay open until `close`. `mayHaveBadRows` is false where this program
 * has made the rows itself (errors.ts).
 */
export function externalTableClient(
  address: ClickHouseAddress,
  { mayHaveBadRows = true }: { mayHaveBadRows?: boolean } = {},
): ExternalTableClient {
  const { request } = address.origin.startsWith('https:') ? https : http
  const agent = keepAliveAgent(address, { maxSockets: 64 })
  const boundary = `sluice-${randomUUID()}`
  const fileHead = `--${boundary}\r\nContent-Disposition: form-data; name="b"; filename="b"\r\nContent-Type: application/octet-stream\r\n\r\n`
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)

  return {
    post: ({ payloads, ...query }) => {
      const { url, fields } = externalTableForm(address, query)
      const head = Buffer.from(`${formText(boundary, fields)}${fileHead}`)
      const contentLength = sum([head, ...payloads, tail].map(({ length }) => length))

      return new Promise((resolve, reject) => {
        const call = request(url, {
          method: 'POST',
          agent,
          // ClickHouse continues an insert whose client left: after a time-out the caller must replace it.
          signal: AbortSignal.timeout(query.timeoutMs + answerTimeoutMs),
          headers: {
            'Content-Type': `multipart/form-data; boundary=${boundary}`,
            'Content-Length': contentLength,
            Authorization: `Basic ${Buffer.from(`${address.username}:${address.password}`).toString('base64')}`,
          },
        })
        const fail = (error: unknown): void => {
          reject(new ClickHouseError(undefined, internalMessage(error), { cause: error, server: namedServer(address) }))
        }
        call.on('error', fail)
        call.on('response', (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', fail)
          response.on('end', () => {
            const code = response.headers['x-clickhouse-exception-code']
            const body = Buffer.concat(chunks)
            const text = body.toString('utf8')
            if (response.statusCode === 200 && code === undefined) {
              try {
                resolve({ body, text, ...readSummary(response.headers['x-clickhouse-summary']) })
              } catch (error) {
                fail(error)
              }
            } else {
              reject(
                new ClickHouseError(
                  code === undefined ? undefined : Number(code),
                  text.slice(0, 2_000) || `HTTP ${response.statusCode ?? 0}`,
                  { server: namedServer(address), mayHaveBadRows },
                ),
              )
            }
          })
        })
        call.write(head)
        for (const payload of payloads) call.write(payload)
        call.end(tail)
      })
    },
    close: () => agent.destroy(),
  }
}

/**
 * Throws for a response without ClickHouse's own summary, for example from a proxy or another server. The query may not
 * have run then, and rows would count as stored that are not.
 */
function readSummary(header: string | string[] | undefined): Omit<ExternalTableResult, 'body' | 'text'> {
  if (header === undefined) throw new Error(noSummaryText)
  const summary = JSON.parse(String(header)) as Partial<Record<string, string>> | null
  const counts = { writtenRows: Number(summary?.written_rows), readRows: Number(summary?.read_rows) }
  if (!Object.values(counts).every(Number.isSafeInteger)) throw new Error('X-ClickHouse-Summary has no numbers')
  return counts
}
