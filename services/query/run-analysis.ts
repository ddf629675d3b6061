import type { Credential } from '@sluice/access/credential'
import type { Criteria, Filter } from '@sluice/contracts/conditions'
import { type ExceededLimit, QueryTooLargeError } from '@sluice/event-store/clickhouse/errors'
import type { QueryReader, QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import { refusedPatternPath, refusedPatternReason } from '@sluice/event-store/conditions'
import { type BoundOperation, handle, type RequestOf, type ResultOf } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { abortedAfter } from '@sluice/runtime/deadline'
import { AppError, invalidField, isRetryable, unavailable } from '@sluice/runtime/errors'
import type { AnalysisKind, ObserveAnalysis } from './metrics.ts'

/**
 * Read access to the event store for request handlers: `runnerFor(caller)` returns a runner that queues, limits and
 * cancels the caller's statements.
 */
export interface AnalysisReader extends Pick<QueryReader, 'runnerFor'> {
  /** Called with the kind of each analysis that names one, and how long it took. */
  observeAnalysis?: ObserveAnalysis
  /** How long the statements of one analysis, or of a batch, may take together, waiting included; default: 60,000. */
  requestMsMax?: number
}

/** Less than a proxy waits for an answer (deploy/haproxy/haproxy.cfg). One statement may take 30 s. */
const requestMsMaxDefault = 60_000

/**
 * Runs the analyses of a request. Their signal aborts when the client leaves, or when they take too long together,
 * because neither the client nor a proxy waits longer.
 */
function withinRequestTime<T>(
  { requestMsMax: ms = requestMsMaxDefault }: AnalysisReader,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return abortedAfter(signal, { ms, late: () => unavailable(`the analyses of a request took ${ms} ms`) }, work)
}

/**
 * Binds the handler of an operation that runs analyses. Everything that uses the given signal shares the time of the
 * request, including the look-up of the site.
 */
export function handleAnalysis<const O extends BoundOperation>(
  operation: O,
  reader: AnalysisReader,
  handler: (request: RequestOf<O>, signal: AbortSignal) => Promise<ResultOf<O>>,
): Route {
  return handle(operation, (request) => withinRequestTime(reader, request.signal, (signal) => handler(request, signal)))
}

/** The field of a request that makes an analysis fail, and the reason that its client reads. */
export interface FieldText {
  field: string
  reason: string
}

/** The texts of a request for the failures of its analysis. */
export interface FieldTexts {
  /**
   * The text for each limit. A limit without an entry has the text of `resources`; without that, the text says that the
   * range is too long. `unavailable`: the request has no field that could ask for less, so an analysis that is too
   * large is answered 503.
   */
  tooLarge?: Partial<Record<ExceededLimit, FieldText>> | 'unavailable'
  /** The conditions of the request by the path of their field, as `filter`. */
  conditions?: Readonly<Record<string, Criteria | Filter>>
}

const rangeTooLong: FieldText = {
  field: 'start_date',
  reason: 'asks for more than one answer may read: ask for a shorter range or fewer groups',
}

export interface AnalysisOptions extends FieldTexts {
  /** The kind of the analysis in the metrics; absent for an analysis that Sluice itself needs for a request. */
  kind?: AnalysisKind
}

/** The text for requests that read a site's recent events and have no range. */
export const siteTooLarge: FieldText = {
  field: 'site_id',
  reason: 'has more recent events than one answer may read: ask again later, or for one environment',
}

/** The text for cohorts whose members take too much to find; `field` names the cohort in the request. */
export function cohortTooLarge(field: string): FieldText {
  return { field, reason: 'asks for more than one answer may read: ask for fewer conditions or rarer events' }
}

/**
 * Runs an analysis for a request, in the queue of its key, until its client leaves or it takes too long. Throws a 400
 * with the request's fields (docs/http-interface.md#errors) for an analysis that is too large or whose pattern
 * ClickHouse refuses, and otherwise what the analysis throws.
 */
export async function runAnalysis<Numbers>(
  reader: AnalysisReader,
  { credential, signal }: { credential: Pick<Credential, 'keyId'>; signal: AbortSignal },
  analysis: (runner: QueryRunner) => Promise<Numbers>,
  { kind, ...texts }: AnalysisOptions = {},
): Promise<Numbers> {
  // An analysis whose time is over before it begins has no time to observe.
  if (isOver(signal)) throw signal.reason
  const startedAt = performance.now()
  const observe = (): void => {
    if (kind !== undefined) reader.observeAnalysis?.(kind, (performance.now() - startedAt) / 1000)
  }
  try {
    const numbers = await withinRequestTime(reader, signal, (ownSignal) =>
      analysis(reader.runnerFor({ key: credential.keyId, signal: ownSignal, priority: 'interactive' })),
    )
    observe()
    return numbers
  } catch (error) {
    // The time of an analysis that was refused, or whose client has left, says nothing.
    if (isRetryable(error) && (!signal.aborted || isOver(signal))) observe()
    throw toFieldError(error, texts)
  }
}

/** The 400 that names the request's field, for failures with such a field, or the 503; other errors unchanged. */
export function toFieldError(error: unknown, { tooLarge = {}, conditions = {} }: FieldTexts): unknown {
  if (error instanceof QueryTooLargeError) {
    if (tooLarge === 'unavailable') return unavailable(error.internal, error)
    const { resources = rangeTooLong } = tooLarge
    const { field, reason } = tooLarge[error.limit] ?? resources
    if (error.limit === 'buckets' || error.limit === 'rows') return invalidField(field, reason)
    const { internal, cause } = error
    return new AppError('query_too_large', { message: `Invalid field: ${field} ${reason}`, internal, cause })
  }
  for (const [field, condition] of Object.entries(conditions)) {
    const path = refusedPatternPath(error, condition)
    if (path !== undefined) {
      return invalidField(`${field}.${path}`, refusedPatternReason)
    }
  }
  return error
}

/** Whether the time of a request is over; the signal of a client that left has another reason. */
function isOver({ reason }: AbortSignal): boolean {
  return reason instanceof AppError
}
