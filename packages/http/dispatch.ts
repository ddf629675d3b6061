import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Access } from '@sluice/access/access'
import { statusOf } from '@sluice/api/error-status'
import { limitClasses } from '@sluice/contracts/rate-limits'
import { AppError, invalidFormat, notFound } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { Counter, Histogram, type Metrics } from '@sluice/runtime/metrics'
import { holdsKey, redacted } from '@sluice/runtime/redact'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { activeTraceId, causesOf, describeSpan, isTracing, traced } from '@sluice/runtime/tracing'
import type { Admission } from './admission.ts'
import { AdmittedRequest, noBytes } from './admitted-request.ts'
import { readWriteKey } from './authenticate.ts'
import type { ClientReader } from './client-address.ts'
import { sendErrorPage, wantsPage } from './error-page.ts'
import { corsHeaders, type CorsRule, type Headers, rateLimitHeaders, transportHeaders } from './headers.ts'
import { withIdempotency } from './idempotency.ts'
import { checksOf, type RequestContext } from './request-checks.ts'
import { releaseRequest, reserveDownload, reserveResponse } from './response-memory.ts'
import type { ApiRequest, HandlerResult, Route, RouteRule } from './route.ts'
import { sendFile } from './send-file.ts'
import { isServerError, responseText, sendError, sendResponse } from './send-response.ts'
import type { WorkQueue } from './work-queue.ts'

export interface DispatchDeps {
  access: Access
  clients: ClientReader
  /** Origins whose pages may read responses of /api/v1. */
  corsOrigins: ReadonlySet<string>
  admission: Admission
  workQueue: WorkQueue
  logger: Logger
  metrics: Metrics
  /** Clock of receipts and of the responses' `timestamp`. */
  clock: Pick<SynchronizedClock, 'now'>
}

/** Handles the requests of routes, and answers those without a route. */
export interface Dispatch {
  /** Runs the checks and the handler of a route and sends a response in every case. */
  route(
    route: Route,
    params: Readonly<Record<string, string>>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void>
  /**
   * Sends the error of a request without a handler: an unknown route, a wrong method or an unreadable path. A browser
   * that opens the address gets a page. `corsRule` decides which origins may read the error; undefined for a page.
   */
  fail(error: unknown, corsRule: CorsRule | undefined, request: IncomingMessage, response: ServerResponse): void
}

/** Independent of Express: only the request and the response of node:http are needed. */
export function createDispatch({
  access,
  clients,
  corsOrigins,
  admission,
  workQueue,
  logger,
  metrics,
  clock,
}: DispatchDeps): Dispatch {
  const requests = new Counter({
    name: 'sluice_http_requests_total',
    help: 'Requests by route and status.',
    labelNames: ['route', 'method', 'status'],
    registers: [metrics],
  })
  const durations = new Histogram({
    name: 'sluice_http_request_duration_seconds',
    help: 'Time from the request’s headers to the end of the answer.',
    labelNames: ['route', 'method'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [metrics],
  })

  const rateLimited = new Counter({
    name: 'sluice_rate_limited_total',
    help: 'Requests that were answered 429, by the class of the limit.',
    labelNames: ['class'],
    registers: [metrics],
  })
  for (const name of limitClasses) rateLimited.inc({ class: name }, 0)

  // Log lines of successful requests contain only fields that this codebase sets. Redaction would find nothing in them
  // and take 5 % of the gateway's CPU time. Errors may contain anything and are redacted. Errors of overload are logged
  // by their message only, because refusing a request must be cheap.
  const plainLines = logger.child({}, { redact: [] })
  const count = memoizeByLabels((route: string, method: string, status: number) =>
    requests.labels(route, method, String(status)),
  )
  const observeDuration = memoizeByLabels((route: string, method: string) => durations.labels(route, method))

  /** Counts and logs the request when its response has ended. */
  function observe(
    { path, quiet }: Pick<RouteRule, 'path' | 'quiet'>,
    request: IncomingMessage,
    response: ServerResponse,
  ) {
    const started = performance.now()
    const requestId = requestIdOf(request)
    const fields: Record<string, unknown> = isTracing() ? { trace_id: activeTraceId() } : {}
    response.once('close', () => {
      const method = request.method ?? ''
      const durationMs = performance.now() - started
      const status = response.headersSent ? response.statusCode : clientClosedRequest
      count(path, method, status).inc()
      observeDuration(path, method).observe(durationMs / 1000)
      // Clients that treat any 2xx as the success of the whole batch do not report refused events.
      const isQuiet = quiet === true && status < 400 && !fields.rejected
      const level = status >= 500 || 'err' in fields ? 'error' : isQuiet ? 'debug' : 'info'
      if (!logger.isLevelEnabled(level)) return
      const line = {
        request_id: requestId,
        method,
        route: path,
        status,
        duration_ms: Math.round(durationMs * 1000) / 1000,
        ...(response.writableFinished ? {} : { aborted: true }),
        ...fields,
      }
      if ('err' in fields) logger[level](line, 'request')
      else plainLines[level](line, 'request')
    })
    return { requestId, fields }
  }

  function invokeHandler(route: Route, handled: AdmittedRequest, context: RequestContext): Promise<HandlerResult> {
    if (route.scope === 'public') return route.handle(handled)
    const { credential, request, body } = context
    if (!credential) throw new Error('a route’s checks let a request without a credential pass')
    if (!route.idempotent) return route.handle(handled as ApiRequest)
    const { hasGeneratedSecret } = route
    const store = access.idempotency
    return withIdempotency({ request, credential, body: body.bytes, clock }, { store, hasGeneratedSecret }, () =>
      route.handle(handled as ApiRequest),
    )
  }

  /** The headers of every response to a request, whether a success or an error. */
  function headersOf({ request, route, rate }: RequestContext, requestId: string): Headers {
    return {
      'X-Request-Id': requestId,
      ...corsHeaders(route, corsOrigins, request),
      ...transportHeaders(clients.read(request)),
      ...(rate && rateLimitHeaders(rate, route)),
    }
  }

  const dispatch: Dispatch = {
    fail: (error, corsRule, request, response) => {
      const { fields, requestId } = observe({ path: '' }, request, response)
      const headers = { 'X-Request-Id': requestId, ...(corsRule && corsHeaders(corsRule, corsOrigins, request)) }
      const isSent = wantsPage(request) && sendErrorPage(response, headers, error)
      logFailure(fields, error, !isSent && (response.headersSent || isServerError(error)))
      if (!isSent) sendError(response, headers, error, clock.now())
    },
    route: async (route, params, request, response) => {
      const { requestId, fields } = observe(route, request, response)
      const query = queryOf(request.url ?? '')
      const context: RequestContext = {
        request,
        route,
        query,
        writeKey: route.dialect === undefined ? undefined : readWriteKey(request, query),
        access,
        clients,
        admission,
        workQueue,
        clock,
        quota: undefined,
        reservedBytes: 0,
        reservedBodyBytes: 0,
        credential: undefined,
        session: undefined,
        rate: undefined,
        body: { bytes: noBytes, type: '' },
        receivedAt: undefined,
        authenticatedAt: 0,
      }
      try {
        for (const check of checksOf(context)) {
          const pending = check(context)
          if (pending) await pending
        }
        fields.key_id = context.credential?.keyId
        requireReadableQuery(request.url ?? '')
        requireParamsWithoutNul(params)
        const receivedAt = context.receivedAt ?? clock.now()
        const handled = new AdmittedRequest(context, { requestId, receivedAt, params, response, fields })
        const answer = await invokeHandler(route, handled, context)
        if (answer.file) {
          reserveDownload(context, response)
          await sendFile(request, response, headersOf(context, requestId), answer.file)
        } else {
          const text = responseText(answer, clock.now())
          // Responses to writes are sent even when no memory is left for them. After a 503, a client would send its
          // events again, and the secret of a new key would be lost.
          if (route.limit === 'queries') reserveResponse(context, response, text)
          sendResponse(response, headersOf(context, requestId), answer, text)
        }
      } catch (error) {
        if (context.credential) fields.key_id = context.credential.keyId
        if (error instanceof AppError) {
          if (error.code === 'rate_limited') rateLimited.inc({ class: route.limit ?? 'none' })
          await adjustCharge(route, context, error)
        }
        logFailure(fields, error, response.headersSent || isServerError(error))
        sendError(response, headersOf(context, requestId), error, clock.now())
      } finally {
        releaseRequest(context, response)
      }
    },
  }
  return isTracing() ? { ...dispatch, route: tracedRoute(dispatch) } : dispatch
}

/** Handles each request in a span, whose parent is the span in the request's `traceparent`. */
function tracedRoute(dispatch: Dispatch): Dispatch['route'] {
  return (route, params, request, response) => {
    const { method = '', headers } = request
    const attributes = { 'http.request.method': method, 'http.route': route.path }
    return traced(`${method} ${route.path}`, { kind: 'server', attributes, causes: causesOf(headers) }, async () => {
      await dispatch.route(route, params, request, response)
      const { statusCode } = response
      const error = statusCode >= 500 ? new Error(`answered ${statusCode}`) : undefined
      describeSpan({ 'http.response.status_code': statusCode }, error)
    })
  }
}

/**
 * Adjusts the cost of a failed request (docs/http-interface.md#rate-limits). A request that is answered 429 or 413
 * costs nothing, whichever limit refuses it, e.g. the limit of new sites. If the cost depends on the body, a request
 * that is answered 400 costs at least 1, and exactly 1 if its body is unreadable.
 */
async function adjustCharge(route: Route, { rate }: RequestContext, error: AppError): Promise<void> {
  const status = statusOf[error.code]
  const isUnreadable = error.code === 'invalid_format' && route.cost === 'body'
  if (status === 413 || status === 429 || isUnreadable) await rate?.refund()
  if (status === 400 && route.cost === 'body') await rate?.consumeAtLeastOne()
}

/**
 * Adds an error to the log line. A retryable error is logged by its message only, because a stack would cost more than
 * the request. The message names the reason.
 */
function logFailure(fields: Record<string, unknown>, error: unknown, isLoggedWithStack: boolean): void {
  if (error instanceof AppError) {
    fields.error = holdsKey(error.internal) ? redacted : error.internal
    if (error.retryable) return
  }
  if (isLoggedWithStack) fields.err = error
}

/**
 * Status in logs and metrics of a request whose client disconnected before the response; nginx uses the same number.
 */
const clientClosedRequest = 499

/**
 * The request id for the response's `X-Request-Id` and the log line: the incoming one if it is short, printable and no
 * key, so that it can't forge log lines or headers; otherwise a new one.
 */
export function requestIdOf(request: IncomingMessage): string {
  const incoming = request.headers['x-request-id']
  const isUsable = typeof incoming === 'string' && /^[\w.:-]{1,128}$/.test(incoming) && !holdsKey(incoming)
  return isUsable ? incoming : randomUUID()
}

/** Caches the result of `make` by labels: prom-client would hash the labels at every request. */
function memoizeByLabels<Labels extends (string | number)[], Child>(
  make: (...labels: Labels) => Child,
): (...labels: Labels) => Child {
  const children = new Map<string, Child>()
  return (...labels) => {
    const key = labels.join(' ')
    let child = children.get(key)
    if (child === undefined) {
      child = make(...labels)
      children.set(key, child)
    }
    return child
  }
}

const noQuery = new URLSearchParams()

function queryOf(url: string): URLSearchParams {
  const mark = url.indexOf('?')
  return mark < 0 ? noQuery : new URLSearchParams(url.slice(mark + 1))
}

/** Throws 404 for an id with NUL: no record has one, and Postgres rejects statements with NUL in a parameter. */
function requireParamsWithoutNul(params: Readonly<Record<string, string>>): void {
  if (Object.values(params).some((part) => part.includes('\0'))) throw notFound()
}

/** Throws 400 for percent-encoding that is not UTF-8, which URLSearchParams would replace by U+FFFD. */
function requireReadableQuery(url: string): void {
  const mark = url.indexOf('?')
  if (mark < 0 || !url.includes('%', mark)) return
  try {
    decodeURIComponent(url.slice(mark + 1))
  } catch {
    throw invalidFormat('query is not valid percent-encoding')
  }
}
