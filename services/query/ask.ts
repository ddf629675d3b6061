import type { ClickHouse, ClickHouseSettings, QueryParams, QueryResult } from '@sluice/clickhouse/client'
import { ClickHouseError } from '@sluice/clickhouse/errors'
import { SluiceError, unavailable } from '@sluice/contracts/errors'
import type { ApiRequest } from '@sluice/http/route'
import type { Turns } from './turns.ts'

/** A SELECT with the values of its placeholders. */
export interface Statement {
  sql: string
  params: QueryParams
}

export interface AskOptions {
  /** Most rows of the answer. */
  rowsMax: number
  /** The 400 of a question whose answer has more. */
  tooMany: () => Error
}

/** Asks ClickHouse a question that a client asks of us. */
export type Ask = <Row>(statement: Statement, options?: AskOptions) => Promise<QueryResult<Row>>

/**
 * Limits of one query: a question that passes them fails alone. With `readonly` ClickHouse cancels what a client that
 * left had asked for.
 */
const settings = {
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
  // Else an answer of megabytes is under way when ClickHouse refuses it, and is cut without a reason.
  wait_end_of_query: 1,
  max_execution_time: 30,
  max_memory_usage: '4000000000',
  max_rows_to_read: '20000000000',
} as const

/** ClickHouse's codes of a question that is refused for what it is, whenever it is asked. */
const code = { tooManyRows: 158, memoryLimit: 241, tooManyResultRows: 396 } as const

/** What a question of too much is refused with: the field that makes it so, and why. */
export interface TooMuch {
  field: string
  reason: string
}

const tooLongRange: TooMuch = {
  field: 'start_date',
  reason: 'asks for more than one answer may read: ask for a shorter range or fewer groups',
}

/** ClickHouse as handlers ask it: in the name of a key. */
export interface Questions {
  query: <Row>(
    sql: string,
    params: QueryParams,
    options: { signal: AbortSignal; settings: ClickHouseSettings; keyId: string },
  ) => Promise<QueryResult<Row>>
}

/** Questions of one process that ClickHouse works on at once, of all keys and of each; the others wait. */
export const turnLimits = { atOnce: 16, atOncePerHolder: 4, waitingPerHolder: 1_000, waitMs: 30_000 } as const

/**
 * Each key's questions in turn with the others'. Of those that ClickHouse works on it prefers each key's first: one that
 * asks a lot slows itself down.
 */
export function questionsInTurn(clickHouse: Pick<ClickHouse, 'query'>, turns: Turns): Questions {
  return {
    query: (sql, params, { keyId, signal, settings: given }) =>
      turns.run(keyId, signal, (rank) =>
        clickHouse.query(sql, params, { signal, settings: { ...given, priority: String(rank) } }),
      ),
  }
}

/**
 * Throws 400 for a question that is more than one may ask; 503 for one that took too long, or that ClickHouse can't take
 * now.
 */
export function asker(
  clickHouse: Questions,
  { credential, signal }: Pick<ApiRequest, 'credential' | 'signal'>,
  tooMuch = tooLongRange,
): Ask {
  const { keyId } = credential
  return async ({ sql, params }, options) => {
    // The driver hears a signal only from then on.
    if (signal.aborted) throw unavailable('the client left before its question was asked')
    const limits = options && { max_result_rows: String(options.rowsMax), result_overflow_mode: 'throw' as const }
    try {
      return await clickHouse.query(sql, params, { signal, keyId, settings: { ...settings, ...limits } })
    } catch (error) {
      throw askersFault(error, tooMuch, options) ?? error
    }
  }
}

function askersFault(error: unknown, tooMuch: TooMuch, options: AskOptions | undefined): Error | undefined {
  if (!(error instanceof ClickHouseError)) return undefined
  if (error.code === code.tooManyResultRows && options) return options.tooMany()
  if (error.code === code.tooManyRows || error.code === code.tooManyResultRows) return tooLarge(tooMuch, error)
  // The server's own limit passes with the load.
  const isOwnMemory = error.code === code.memoryLimit && /query memory limit/i.test(error.internal)
  return isOwnMemory ? tooLarge(tooMuch, error) : undefined
}

function tooLarge({ field, reason }: TooMuch, cause: ClickHouseError): SluiceError {
  return new SluiceError(400, { message: `Invalid field: ${field} ${reason}`, internal: cause.internal, cause })
}
