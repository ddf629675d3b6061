import { addAbortSignal } from 'node:stream'
import {
  ClickHouseError as DriverError,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client'
import { readCaFile } from '@sluice/runtime/ca-file'
import { internalMessage } from '@sluice/runtime/errors'
import { parseJson } from '@sluice/runtime/parse-json'
import { tracedCall } from '@sluice/runtime/tracing'
import { parameterMistakes } from '@sluice/runtime/url-parameters'
import { ClickHouseError } from './errors.ts'
import { keepAliveAgent } from './keep-alive-agent.ts'
import { type QueryParams, sentStatement } from './multipart-statement.ts'
import { shardSettings, strictSettings } from './strict-settings.ts'

export type { ClickHouseSettings, QueryParams }

/** Where a ClickHouse is, from `http(s)://user:password@host:port/database[?cluster=<name>][&ca=<PEM file>]`. */
export interface ClickHouseAddress {
  origin: string
  username: string
  password: string
  database: string
  /**
   * Name of the cluster whose shards hold the store, in `system.clusters`; absent: the store is on this server alone.
   */
  cluster?: string
  /** The server is one of several of a store, so that errors name it. */
  isShard?: true
  /** PEM certificates to trust instead of Node's, for `https:`. */
  ca?: string
}

/** A result as ClickHouse writes it, in the format that the statement names. */
export interface ByteResult {
  bytes: AsyncIterable<Uint8Array>
  rows: number
}

/** The rows of a statement, and its totals where it has `WITH TOTALS`. */
export interface QueryResult<Row> {
  rows: Row[]
  /** The row of `WITH TOTALS`; undefined without that clause. */
  totals: Row | undefined
}

/**
 * A ClickHouse by the driver. Services use EventReader, ExportReader, EventInserter and EventEraser, which are made of
 * it, and the operators' commands ClickHouse itself; only external-table.ts uses HTTP without the driver.
 */
export interface ClickHouse {
  readonly address: ClickHouseAddress
  /**
   * Runs a SELECT. Values only as `{name:Type}` parameters; identifiers are the caller's own constants.
   * 64-bit integers are returned as numbers (counts stay below 2^53); hashed keys must not be selected.
   * Throws ClickHouseError.
   */
  query: <Row>(
    sql: string,
    params?: QueryParams,
    options?: { signal?: AbortSignal; settings?: ClickHouseSettings },
  ) => Promise<QueryResult<Row>>
  /**
   * Runs a SELECT that ends in a FORMAT clause, and returns its result unread, once ClickHouse has all of it: what is
   * read is whole, or fails. Throws ClickHouseError, which reading the bytes may do too; they must be read to their
   * end, or the signal aborted.
   */
  read: (
    sql: string,
    params: QueryParams,
    options: { signal: AbortSignal; settings: ClickHouseSettings },
  ) => Promise<ByteResult>
  /** Runs a statement without a result. Throws ClickHouseError. */
  command(sql: string, options?: { params?: QueryParams; settings?: ClickHouseSettings }): Promise<void>
  /** Resolves when the server answers a query as this user; rejects with the reason otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}

/**
 * Splits SLUICE_CLICKHOUSE_URL into its parts. The database defaults to `sluice`, the user to `default`. Throws
 * TypeError.
 */
export function parseClickHouseUrl(url: string): ClickHouseAddress {
  const { protocol, origin, username, password, pathname, searchParams } = new URL(url)
  if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError('must start with http:// or https://')
  const database = decodeURIComponent(pathname.slice(1)) || 'sluice'
  if (!/^\w+$/.test(database))
    throw new TypeError('its path must be a database name of letters, digits and underscores')
  const [mistake] = parameterMistakes(searchParams, ['ca', 'cluster'])
  if (mistake !== undefined) throw new TypeError(mistake)
  const cluster = searchParams.get('cluster')
  if (cluster !== null && !/^[\w.-]+$/.test(cluster))
    throw new TypeError('"cluster" must be a name of letters, digits, underscores, dots and hyphens')
  return {
    origin,
    username: decodeURIComponent(username) || 'default',
    password: decodeURIComponent(password),
    database,
    ...(cluster !== null && { cluster }),
    ...readCa(protocol, searchParams.get('ca')),
  }
}

function readCa(protocol: string, file: string | null): { ca?: string } {
  if (file === null) return {}
  const mistakes = protocol === 'https:' ? [] : ['"ca" needs https:']
  const ca = readCaFile(file, mistakes)?.ca
  if (mistakes.length > 0) throw new TypeError(mistakes.join('; '))
  return ca === undefined ? {} : { ca }
}

export interface ClientOptions {
  /** How long a request may take, in ms; a minute by default. */
  requestTimeoutMs?: number
  /** Settings of every statement, in addition to `strictSettings`. */
  settings?: ClickHouseSettings
}

/** Creates a client; it opens no connection before the first use. Throws TypeError. */
export function openClickHouse(url: string, options: ClientOptions = {}): ClickHouse {
  return openClickHouseAt(parseClickHouseUrl(url), options)
}

/** As `openClickHouse`, for an address whose URL was split already. */
export function openClickHouseAt(address: ClickHouseAddress, options: ClientOptions = {}): ClickHouse {
  const client = createClient({
    url: address.origin,
    http_agent: keepAliveAgent(address, { maxSockets: 32 }),
    // The agent ends idle connections. The driver's own timer of a connection keeps running when a caller leaves before
    // its statement is sent, and then cuts a later statement on that connection.
    keep_alive: { enabled: true, idle_socket_ttl: 0 },
    username: address.username,
    password: address.password,
    database: address.database,
    application: 'sluice',
    request_timeout: options.requestTimeoutMs ?? 60_000,
    // Long parameters of queries go into the body: proxies refuse URLs of more than some kilobytes. `exec` and `command`
    // of the driver have no such option, see `sentStatement`.
    use_multipart_params_auto: true,
    // Callers log the failures that are thrown; the driver would print them to the terminal as well.
    log: { level: ClickHouseLogLevel.OFF },
    // Columns with properties have the names that clients chose.
    json: { parse: (text: string) => parseJson(text) as never },
    // The driver types them more narrowly than what it sends, which is text.
    clickhouse_settings: { ...settingsOf(address), ...options.settings },
  })

  async function run<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      throw toClickHouseError(error, address)
    }
  }

  /** The statement contains placeholders in place of values. */
  const runTraced = <T>(sql: string, call: () => Promise<T>): Promise<T> =>
    tracedCall('clickhouse', { 'db.system.name': 'clickhouse', 'db.query.text': sql }, () => run(call))

  return {
    address,
    query: (sql, params = {}, { signal, settings } = {}) =>
      runTraced(sql, async () => {
        const result = await client.query({
          query: sql,
          query_params: params,
          format: 'JSON',
          ...(signal ? { abort_signal: signal } : {}),
          ...(settings ? { clickhouse_settings: settings } : {}),
        })
        const body = await result.json<never>()
        return { rows: body.data, totals: body.totals }
      }),
    read: (sql, params, { signal, settings }) =>
      runTraced(sql, async () => {
        const { stream, summary } = await client.exec({
          ...sentStatement(sql, params),
          abort_signal: signal,
          clickhouse_settings: { ...settings, wait_end_of_query: 1 },
        })
        // A page of a proxy has no summary, and is not the result.
        if (summary === undefined) {
          stream.destroy()
          throw new Error(noSummaryText)
        }
        // A result that is no longer read must not hold its connection, either.
        addAbortSignal(signal, stream)
        return { bytes: withClickHouseErrors(stream, address), rows: Number(summary.result_rows) }
      }),
    command: (sql, { params = {}, settings } = {}) =>
      runTraced(sql, async () => {
        const { summary } = await client.command({
          ...sentStatement(sql, params),
          clickhouse_settings: { wait_end_of_query: 1, ...settings },
        })
        // The response is not ClickHouse's, for example a page of a proxy: the statement has not run.
        if (summary === undefined) throw new Error(noSummaryText)
      }),
    check: () =>
      run(async () => {
        const result = await client.query({
          query: 'SELECT 1',
          format: 'JSON',
          abort_signal: AbortSignal.timeout(2_000),
        })
        await result.text()
      }),
    close: () => client.close(),
  }
}

function settingsOf({ cluster }: ClickHouseAddress): Readonly<Record<string, string>> {
  return cluster === undefined ? strictSettings : { ...strictSettings, ...shardSettings }
}

/** Opens a server for `work`, and closes it afterwards. Throws what `work` throws. */
export async function withClickHouse<T>(
  address: ClickHouseAddress,
  work: (clickHouse: ClickHouse) => Promise<T>,
): Promise<T> {
  const clickHouse = openClickHouseAt(address)
  try {
    return await work(clickHouse)
  } finally {
    await clickHouse.close()
  }
}

async function* withClickHouseErrors(
  stream: AsyncIterable<Uint8Array>,
  address: ClickHouseAddress,
): AsyncGenerator<Uint8Array> {
  try {
    yield* stream
  } catch (error) {
    throw toClickHouseError(error, address)
  }
}

function toClickHouseError(error: unknown, address: ClickHouseAddress): ClickHouseError {
  const options = { cause: error, server: namedServer(address) }
  if (error instanceof DriverError) return new ClickHouseError(Number(error.code), error.message, options)
  return new ClickHouseError(undefined, internalMessage(error), options)
}

/** Why a response of 200 does not count: ClickHouse sends a summary with each. */
export const noSummaryText = 'The response has no X-ClickHouse-Summary: it is not one of ClickHouse'

/** The server that an error names; undefined where there is only one. */
export function namedServer({ isShard, origin }: ClickHouseAddress): string | undefined {
  return isShard ? origin : undefined
}
