import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { limitClasses } from '@sluice/contracts/rate-limits'
import { AppError } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { beginAtZero, Counter, Histogram, type Metrics } from '@sluice/runtime/metrics'
import { holdsKey, redacted } from '@sluice/runtime/redact'
import { activeTraceId, isTracing } from '@sluice/runtime/tracing'
import type { RouteRule } from './route.ts'

/** One request in logs and metrics. */
export interface ObservedRequest {
  requestId: string
  /** Fields of the request's log line, to which the request's handling adds. */
  fields: Record<string, unknown>
}

/** Counts and logs requests. */
export interface RequestObserver {
  /** Counts and logs the request when its response has ended. */
  observe(rule: Pick<RouteRule, 'path' | 'quiet'>, request: IncomingMessage, response: ServerResponse): ObservedRequest
  /** Counts a request that was answered 429. */
  countRateLimited(limit: RouteRule['limit']): void
}

/** Creates the observer of a service with these routes. */
export function createRequestObserver(
  logger: Logger,
  metrics: Metrics,
  routes: readonly Pick<RouteRule, 'path' | 'method'>[],
): RequestObserver {
  const requests = new Counter({
    name: 'sluice_http_requests_total',
    help: 'Requests by route and status.',
    labelNames: ['route', 'method', 'status'],
    registers: [metrics],
  })
  // The objectives of availability would miss the first failures of a process if their series began with them.
  for (const { path, method } of routes)
    beginAtZero(requests, { route: [path], method: [method], status: ['500', '503'] })
  const durations = new Histogram({
    name: 'sluice_http_request_duration_seconds',
    help: 'Time from the request’s headers to the end of the answer.',
    labelNames: ['route', 'method'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers: [metrics],
  })

  const rateLimited = new Counter({
    name: 'sluice_rate_limited_total',
    help: 'Requests that were answered 429, by the class of the limit.',
    labelNames: ['class'],
    registers: [metrics],
  })
  beginAtZero(rateLimited, { class: limitClasses })

  // Log lines of successful requests contain only fields that this codebase sets. Redaction would find nothing in them
  // and take 5 % of the gateway's CPU time. Errors may contain anything and are redacted. Errors of overload are logged
  // by their message only, because refusing a request must be cheap.
  const plainLines = logger.child({}, { redact: [] })
  const count = memoizeByLabels((route: string, method: string, status: number) =>
    requests.labels(route, method, String(status)),
  )
  const observeDuration = memoizeByLabels((route: string, method: string) => durations.labels(route, method))

  const observe: RequestObserver['observe'] = ({ path, quiet }, request, response) => {
    const started = performance.now()
    const requestId = requestIdOf(request)
    const fields: Record<string, unknown> = isTracing() ? { trace_id: activeTraceId() } : {}
    response.once('close', () => {
      const method = request.method ?? ''
      const durationMs = performance.now() - started
      const status = observedStatus(response)
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

  return {
    observe,
    countRateLimited: (limit) => rateLimited.inc({ class: limit ?? 'none' }),
  }
}

/**
 * Adds an error to the log line. A retryable error is logged by its message only, because a stack would cost more than
 * the request. The message names the reason.
 */
export function addFailure(fields: Record<string, unknown>, error: unknown, isLoggedWithStack: boolean): void {
  if (error instanceof AppError) {
    fields.error = holdsKey(error.internal) ? redacted : error.internal
    if (error.retryable) return
  }
  if (isLoggedWithStack) fields.err = error
}

/** Status of a request whose client disconnected before the response; nginx uses the same number. */
const clientClosedRequest = 499

/**
 * Status of a request in logs, metrics and spans. Call it when the response closes, because a handler that notices the
 * disconnection later still writes its headers.
 */
export function observedStatus(response: ServerResponse): number {
  return response.headersSent ? response.statusCode : clientClosedRequest
}

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
