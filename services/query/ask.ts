import type { ClickHouse, QueryParams, QueryResult } from '@sluice/clickhouse/client'
import { ClickHouseError } from '@sluice/clickhouse/errors'
import { SluiceError, unavailable } from '@sluice/contracts/errors'

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

/**
 * Throws 400 for a question that is more than one may ask; 503 for one that took too long, or that ClickHouse can't take
 * now.
 */
export function asker(clickHouse: Pick<ClickHouse, 'query'>, signal: AbortSignal, tooMuch = tooLongRange): Ask {
  return async ({ sql, params }, options) => {
    // The driver hears a signal only from then on.
    if (signal.aborted) throw unavailable('the client left before its question was asked')
    const limits = options && { max_result_rows: String(options.rowsMax), result_overflow_mode: 'throw' as const }
    try {
      return await clickHouse.query(sql, params, { signal, settings: { ...settings, ...limits } })
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
