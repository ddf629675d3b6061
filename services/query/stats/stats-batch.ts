import { setImmediate } from 'node:timers/promises'
import { requireReadableSite } from '@sluice/access/require-readable-site'
import { statusOf } from '@sluice/api/error-status'
import { operations } from '@sluice/api/operations'
import { batchQuery } from '@sluice/api/stats-batch'
import type { Period } from '@sluice/contracts/stats'
import type { BatchEntry } from '@sluice/contracts/stats-batch'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import { earliestRead } from '@sluice/event-store/stats/earliest-read'
import { deduplicatingRunner, shareStatements } from '@sluice/event-store/stats/share-statements'
import type { ApiRequest, Route } from '@sluice/http/route'
import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { AppError, internalMessage, publicMessage } from '@sluice/runtime/errors'
import { validate } from '@sluice/runtime/validate'
import { type AnalysisReader, handleAnalysis } from '../run-analysis.ts'
import { batchRoom, countingRunner, type CountResult } from './batch-room.ts'
import { parametersOf } from './json-parameters.ts'
import { rangeOf, type RequestedStats, statsSpecOf } from './read-stats-request.ts'
import { type StatsDeps, statsResult } from './stats.ts'

type BatchRequest = Pick<ApiRequest, 'receivedAt' | 'credential' | 'signal' | 'log'>

/** A query that may be evaluated, or the entry of one that may not. */
type ReadQuery = RunnableQuery | { entry: BatchEntry }

/** A query that may be evaluated. The result repeats its `period`. */
interface RunnableQuery {
  spec: RequestedStats
  period: Period | undefined
}

/** How long the queries of batches are read before other requests have their turn. */
const readingMsMax = 5

/** Queries of one batch that run at a time. */
const concurrencyMax = 4

/**
 * `POST /api/v1/stats/batch` (docs/http-interface.md#stats-batch): 200 with `results`, in the order of the queries.
 * Each of them counts against the rate limit of queries; one that fails does not affect the others. Queries about the
 * same sessions share a statement.
 */
export function statsBatchRoute(deps: StatsDeps): Route {
  const readOneAtATime = concurrencyLimit(1)
  /** `performance.now()` when other requests had their turn. */
  let turnBeganAt = 0

  async function readQuery(query: unknown, request: BatchRequest, signal: AbortSignal): Promise<ReadQuery> {
    try {
      const { receivedAt, credential } = request
      const parameters = validate(batchQuery, parametersOf(query))
      const range = rangeOf(parameters, receivedAt)
      const site = await requireReadableSite(deps.sites, { credential, signal }, parameters.site_id)
      const spec = statsSpecOf(parameters, range, site.settings, credential.environment)
      return { spec, period: parameters.period }
    } catch (error) {
      return { entry: failedEntry(error, request) }
    }
  }

  /**
   * Reads the queries of a batch, in order. Compiling the regular expressions of one may take 100 ms, during which the
   * process serves nobody else. So a turn of the event loop reads only one such query, or several cheap ones, of all
   * batches. Throws when `signal` aborts or the client has left.
   */
  async function readQueries(
    queries: readonly unknown[],
    request: BatchRequest,
    signal: AbortSignal,
  ): Promise<ReadQuery[]> {
    const reading: Promise<ReadQuery>[] = []
    for (const query of queries) {
      await readOneAtATime(async () => {
        signal.throwIfAborted()
        const each = readQuery(query, request, signal)
        // It is awaited below. A client that leaves before that must not make an unhandled rejection of it.
        each.catch(() => undefined)
        reading.push(each)
        if (performance.now() - turnBeganAt <= readingMsMax) return
        await setImmediate()
        turnBeganAt = performance.now()
      })
    }
    return Promise.all(reading)
  }

  return handleAnalysis(operations.statsBatch, deps.eventReader, async (request, signal) => {
    const { queries } = request.body
    const asked = queries.length
    await request.consume(asked)
    const read = await readQueries(queries, request, signal)
    // The queries are no longer needed. A refused one may hold megabytes, and the statements of the others may take a
    // minute.
    queries.length = 0
    const results = await runQueries(read, request, signal, deps)
    request.log({ queries: asked, failed: results.filter(({ success }) => !success).length })
    return { results }
  })
}

/**
 * Runs the queries that may be evaluated, `concurrencyMax` at a time. Returns an entry for each query, in order. Throws
 * when the client has left.
 */
async function runQueries(
  read: readonly ReadQuery[],
  request: BatchRequest,
  signal: AbortSignal,
  deps: StatsDeps,
): Promise<BatchEntry[]> {
  const { credential, receivedAt } = request
  // Read before the first statement runs, because a query may share a statement that begins long before its own turn.
  const planned = read.map((query) =>
    'entry' in query ? query : { ...query, completeUntilMs: deps.readCompleteUntil(earliestRead(query.spec)) },
  )
  const withSharedStatement = shareStatements(read.flatMap((query) => ('entry' in query ? [] : [query.spec])))
  const room = batchRoom()
  const eventReader = sharedReader(deps.eventReader, room.countResult)
  const limit = concurrencyLimit(concurrencyMax)

  const run = ({ spec, period, completeUntilMs }: RunnableQuery & { completeUntilMs: number }): Promise<BatchEntry> =>
    limit(async () => {
      try {
        room.requireRoom()
        const queryDeps = { ...deps, eventReader, readCompleteUntil: () => completeUntilMs }
        const caller = { credential, receivedAt, signal }
        const data = await statsResult(withSharedStatement(spec), period, caller, queryDeps)
        room.countAnswer(data)
        return { success: true, data }
      } catch (error) {
        return failedEntry(error, request)
      }
    })

  return Promise.all(planned.map(async (query) => ('entry' in query ? query.entry : run(query))))
}

/** The entry of a query that failed. Throws the error itself when the client has left. */
function failedEntry(error: unknown, request: BatchRequest): BatchEntry {
  if (request.signal.aborted) throw error
  const isUnexpected = !(error instanceof AppError)
  if (isUnexpected || error.code === 'unavailable' || error.code === 'internal')
    request.log({ error: internalMessage(error) })
  return {
    success: false,
    status: statusOf[isUnexpected ? 'internal' : error.code],
    error: publicMessage(error),
  }
}

/**
 * Returns a reader that has the same runner for every caller, so that equal statements run once. All calls must belong
 * to one request. Results are kept for the queries of the request that have not begun yet. `count` is called with each
 * result; a result for which it throws is not kept.
 */
function sharedReader(reader: AnalysisReader, count: CountResult): AnalysisReader {
  let shared: QueryRunner | undefined
  return {
    ...reader,
    runnerFor: (caller) => (shared ??= deduplicatingRunner(countingRunner(reader.runnerFor(caller), count))),
  }
}
