import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Access } from '@sluice/access/access'
import { statusOf } from '@sluice/api/error-status'
import { AppError, invalidFormat, notFound } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import type { Metrics } from '@sluice/runtime/metrics'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { describeSpan, isTracing, spanContextsOf, traced } from '@sluice/runtime/tracing'
import type { Admission } from './admission.ts'
import { AdmittedRequest, noBytes } from './admitted-request.ts'
import { readWriteKey } from './authenticate.ts'
import type { ClientReader } from './client-address.ts'
import { sendErrorPage, wantsPage } from './error-page.ts'
import { corsHeaders, type CorsRule, type Headers, rateLimitHeaders, transportHeaders } from './headers.ts'
import { withIdempotency } from './idempotency.ts'
import { addFailure, createRequestObserver, observedStatus } from './observe-requests.ts'
import { checksOf, type RequestContext } from './request-checks.ts'
import { releaseRequest, reserveDownload, reserveResponse } from './response-memory.ts'
import type { ApiRequest, HandlerResult, Route, RouteRule } from './route.ts'
import { sendFile } from './send-file.ts'
import { isServerError, responseText, sendError, sendResponse } from './send-response.ts'
import type { WorkQueue } from './work-queue.ts'

export interface DispatchDeps {
  /** The routes of the service, whose failures are counted from 0. */
  routes: readonly Pick<RouteRule, 'path' | 'method'>[]
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
  routes,
  access,
  clients,
  corsOrigins,
  admission,
  workQueue,
  logger,
  metrics,
  clock,
}: DispatchDeps): Dispatch {
  const observer = createRequestObserver(logger, metrics, routes)

  function invokeHandler(route: Route, handled: AdmittedRequest, context: RequestContext): Promise<HandlerResult> {
    if (route.scope === 'public') return route.handle(handled)
    const { credential, request, body } = context
    if (!credential) throw new Error('a route’s checks let a request without a credential pass')
    if (!route.idempotent) return route.handle(handled as ApiRequest)
    const { containsGeneratedSecret } = route
    const store = access.idempotency
    return withIdempotency({ request, credential, body: body.bytes, clock }, { store, containsGeneratedSecret }, () =>
      route.handle(handled as ApiRequest),
    )
  }

  /** The headers of every response to a request, whether a success or an error. */
  function headersOf({ request, route, rate }: RequestContext, requestId: string): Headers {
    return {
      'X-Request-Id': requestId,
      ...corsHeaders(route, corsOrigins, request),
      ...transportHeaders(clients.read(request)),
      ...(rate && rateLimitHeaders(rate, clock, route)),
    }
  }

  const dispatch: Dispatch = {
    fail: (error, corsRule, request, response) => {
      const { fields, requestId } = observer.observe({ path: '' }, request, response)
      const headers = { 'X-Request-Id': requestId, ...(corsRule && corsHeaders(corsRule, corsOrigins, request)) }
      const isSent = wantsPage(request) && sendErrorPage(response, headers, error)
      addFailure(fields, error, !isSent && (response.headersSent || isServerError(error)))
      if (!isSent) sendError(response, headers, error, { now: clock.now() })
    },
    route: async (route, params, request, response) => {
      const { requestId, fields } = observer.observe(route, request, response)
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
        network: undefined,
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
        requireParamsWithoutNul(route, params)
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
          if (error.code === 'rate_limited') observer.countRateLimited(route.limit)
          await adjustCharge(route, context, error)
        }
        addFailure(fields, error, response.headersSent || isServerError(error))
        sendError(response, headersOf(context, requestId), error, { now: clock.now(), dialect: route.dialect })
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
    return traced(
      `${method} ${route.path}`,
      { kind: 'server', attributes, parentAndLinks: spanContextsOf(headers) },
      async () => {
        let statusAtClose: number | undefined
        response.once('close', () => {
          statusAtClose = observedStatus(response)
        })
        await dispatch.route(route, params, request, response)
        const status = statusAtClose ?? observedStatus(response)
        describeSpan({ 'http.response.status_code': status }, status >= 500 ? `answered ${status}` : undefined)
      },
    )
  }
}

/**
 * Adjusts the cost of a failed request (docs/http-interface.md#rate-limits). A request that is answered 429 or 413
 * costs nothing, whichever limit refuses it, e.g. the limit of new sites. Neither do events that are answered 503: they
 * are sent again, and an outage of the event log would use up the limit. Queries that are answered 503 are counted,
 * because they may have loaded ClickHouse. If the cost depends on the body, a request that is answered 400 costs at
 * least 1, and exactly 1 if its body is unreadable.
 */
async function adjustCharge(route: Route, { rate }: RequestContext, error: AppError): Promise<void> {
  const status = statusOf[error.code]
  const isUnreadable = error.code === 'invalid_format' && route.cost === 'body'
  const isSentAgain = status === 503 && route.limit === 'events'
  if (status === 413 || status === 429 || isSentAgain || isUnreadable) await rate?.refund()
  if (status === 400 && route.cost === 'body') await rate?.consumeAtLeastOne()
}

const noQuery = new URLSearchParams()

function queryOf(url: string): URLSearchParams {
  const mark = url.indexOf('?')
  return mark < 0 ? noQuery : new URLSearchParams(url.slice(mark + 1))
}

/** Throws 404 for an id with NUL: no record has one, and Postgres rejects statements with NUL in a parameter. */
function requireParamsWithoutNul({ rights }: Route, params: Readonly<Record<string, string>>): void {
  if (!Object.values(params).some((part) => part.includes('\0'))) return
  throw notFound(rights?.of === 'object' ? rights.name : undefined)
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
