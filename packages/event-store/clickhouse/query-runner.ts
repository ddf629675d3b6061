import { AppError, unavailable } from '@sluice/runtime/errors'
import { createFairQueue, type FairQueueLimits } from '@sluice/runtime/fair-queue'
import { Counter, Gauge, type Metrics } from '@sluice/runtime/metrics'
import type { ClickHouse, QueryParams, QueryResult } from './client.ts'
import { clickHouseCode, ClickHouseError, exceedsLimit, QueryTooLargeError } from './errors.ts'
import { statementBytesMax } from './statement-memory.ts'

/** A part of a statement with the values of its placeholders. */
export interface SqlFragment {
  sql: string
  params: QueryParams
}

/** A SELECT with the values of its placeholders. */
export type Statement = SqlFragment

export interface QueryOptions {
  /** Rows that the result may have; a result with more throws QueryTooLargeError. */
  rowsMax?: number
}

/** Runs the statements of analyses. */
export interface QueryRunner {
  /**
   * Resolves to the rows of the statement's result. Throws QueryTooLargeError for a statement that exceeds a limit on
   * its own. Throws AppError `unavailable` when the statement ran or waited too long, or when the caller left. Throws
   * ClickHouseError for every other failure.
   */
  query<Row>(statement: Statement, options?: QueryOptions): Promise<QueryResult<Row>>
  /**
   * Whether the tables are those over the shards of a cluster. Table functions such as `mergeTreeIndex` can't read
   * them.
   */
  readonly isSharded: boolean
}

/** The party on whose behalf statements run. */
export interface QueryCaller {
  /** Key of the fair queue. The statements with one key share the slots of that key. */
  key: string
  /** Aborts when the caller no longer needs the result; ClickHouse then cancels the statement. */
  signal: AbortSignal
  /** `background` statements wait in the same queue, but ClickHouse prefers every `interactive` statement that runs. */
  priority: 'interactive' | 'background'
}

/** Read access to the event store for several callers, each with its share of ClickHouse. */
export interface QueryReader {
  /**
   * Returns a runner for the caller. Its statements wait for their turn in the fair queue, are limited, and are
   * cancelled when the caller's signal aborts.
   */
  runnerFor(caller: QueryCaller): QueryRunner
}

export interface QueryReaderOptions {
  limits?: FairQueueLimits
  /** How long ClickHouse may take for a statement; 30 s by default, as people wait for the result. */
  executionSecondsMax?: number
  /** Where the gauge of running and waiting statements and the counter of time-outs are registered. */
  metrics?: Metrics
  /** The bytes that ClickHouse may hold for a statement (`statementMemory`); 4 GB by default. */
  memoryMax?: () => Promise<number>
  /** See `QueryRunner`. */
  isSharded?: boolean
}

/**
 * Maximum number of statements that one process runs in ClickHouse at a time, in total and per key. Further ones wait.
 */
const queryLimits: FairQueueLimits = {
  concurrencyMax: 16,
  concurrencyPerKeyMax: 4,
  queuedPerKeyMax: 1_000,
  queueTimeoutMs: 30_000,
}

/**
 * Limits of one statement. A statement that exceeds them fails without affecting others. `readonly` is needed because
 * ClickHouse cancels only readonly statements when the client has left.
 */
const settings = {
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
  // Without this setting, ClickHouse may fail after it has sent megabytes of a result, which is then cut off without a
  // reason.
  wait_end_of_query: 1,
  max_execution_time: 30,
  max_memory_usage: String(statementBytesMax),
  max_rows_to_read: '20000000000',
  // This process holds the rows in memory, and also the answer that is built from them.
  max_result_bytes: '64000000',
} as const

/** The driver's error for a request that took too long has no class or code, only this text. */
const driverTimeoutText = 'ClickHouse: Timeout error.'

/**
 * Returns read access to a ClickHouse. The statements of different keys take turns. Among the running statements,
 * ClickHouse prefers the first one of each key, so that a key with many statements slows down only itself.
 */
export function queryReader(
  client: Pick<ClickHouse, 'query'>,
  {
    limits = queryLimits,
    executionSecondsMax = settings.max_execution_time,
    memoryMax,
    metrics,
    isSharded = false,
  }: QueryReaderOptions = {},
): QueryReader {
  const registers = metrics ? [metrics] : []
  const timeouts = new Counter({
    name: 'sluice_query_timeouts_total',
    help: 'Statements that were given up: they took ClickHouse too long, or waited too long for their turn.',
    registers,
  })
  const queue = createFairQueue(limits, () => timeouts.inc())
  new Gauge({
    name: 'sluice_query_questions',
    help: 'Queries to ClickHouse, running and waiting for their turn.',
    labelNames: ['state'],
    registers,
    collect() {
      const { running, waiting } = queue.counts()
      this.set({ state: 'running' }, running)
      this.set({ state: 'waiting' }, waiting)
    },
  })

  return {
    runnerFor: ({ key, signal, priority }) => {
      // ClickHouse prefers lower numbers. The slots of one key are at most concurrencyPerKeyMax.
      const offset = priority === 'interactive' ? 0 : limits.concurrencyPerKeyMax
      return {
        isSharded,
        query: async ({ sql, params }, { rowsMax } = {}) => {
          // The driver notices a signal only if it aborts after the call.
          if (signal.aborted) {
            throw signal.reason instanceof AppError
              ? signal.reason
              : unavailable('the client left before its statement began')
          }
          const resultLimits = rowsMax !== undefined && {
            max_result_rows: String(rowsMax),
            result_overflow_mode: 'throw' as const,
          }
          const memoryLimit = memoryMax && { max_memory_usage: String(await memoryMax()) }
          try {
            return await queue.run(key, signal, (slot) =>
              client.query(sql, params, {
                signal,
                settings: {
                  ...settings,
                  max_execution_time: executionSecondsMax,
                  ...memoryLimit,
                  ...resultLimits,
                  priority: String(offset + slot),
                },
              }),
            )
          } catch (error) {
            // The caller's own time limit has expired. The signal of a client that left has no AppError as its reason.
            if (signal.reason instanceof AppError) {
              timeouts.inc()
              throw signal.reason
            }
            if (isTimeout(error)) timeouts.inc()
            throw toQueryTooLargeError(error, rowsMax) ?? error
          }
        },
      }
    },
  }
}

/** Whether a statement took too long, as ClickHouse or its driver reports. */
function isTimeout(error: unknown): boolean {
  if (!(error instanceof ClickHouseError)) return false
  return error.serverCode === clickHouseCode.timeoutExceeded || error.internal === driverTimeoutText
}

function toQueryTooLargeError(error: unknown, rowsMax: number | undefined): QueryTooLargeError | undefined {
  if (!(error instanceof ClickHouseError)) return undefined
  const { serverCode, internal } = error
  if (serverCode === clickHouseCode.tooManyRowsOrBytes) {
    // ClickHouse has one code for too many rows and too many bytes.
    const isOfRows = rowsMax !== undefined && !internal.includes('max bytes')
    return new QueryTooLargeError(isOfRows ? 'rows' : 'bytes', { internal, cause: error })
  }
  return exceedsLimit(error) ? new QueryTooLargeError('resources', { internal, cause: error }) : undefined
}
