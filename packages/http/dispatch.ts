import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { SluiceError } from '@sluice/contracts/errors'
import type { Logger } from '@sluice/runtime/logger'
import { Counter, Histogram, type Metrics } from '@sluice/runtime/metrics'
import type { Access } from './access.ts'
import type { Admission } from './admission.ts'
import type { ClientReader } from './client.ts'
import { crossOriginHeaders, type Headers, rateLimitHeaders, transportHeaders } from './headers.ts'
import { onceByKey } from './idempotency.ts'
import { renderAnswer, renderError } from './render.ts'
import type { Answer, ApiRequest, Client, Credential, Route, RouteRule, Session } from './route.ts'
import { type Exchange, steps } from './steps.ts'

export interface DispatchDeps {
  access: Access
  clients: ClientReader
  /** Whose pages may read answers of /api/v1. */
  corsOrigins: ReadonlySet<string>
  admission: Admission
  logger: Logger
  metrics: Metrics
}

export interface Dispatch {
  /** Runs a route's steps and its handler, and answers, whatever happens. */
  route(
    route: Route,
    params: Readonly<Record<string, string>>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void>
  /** Answers a request that no handler gets: unknown routes, wrong methods, unreadable paths. */
  fail(error: unknown, request: IncomingMessage, response: ServerResponse): void
}

/** Framework-free: it needs node:http's request and response only, so that any server can stand in front. */
export function createDispatch({ access, clients, corsOrigins, admission, logger, metrics }: DispatchDeps): Dispatch {
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

  // Lines of requests that went as they should hold fields of our choosing alone: redaction has nothing to find in
  // them, and costs a twentieth of a gateway's time. Errors, which may hold anything, go through it; those of overload
  // are told by their text alone, because refusing must be the cheapest answer.
  const plainLines = logger.child({}, { redact: [] })
  const count = labelled((route: string, method: string, status: number) =>
    requests.labels(route, method, String(status)),
  )
  const observeDuration = labelled((route: string, method: string) => durations.labels(route, method))

  /** Counts and logs the request when its answer has ended. */
  function observe(
    { path, quiet }: Pick<RouteRule, 'path' | 'quiet'>,
    request: IncomingMessage,
    response: ServerResponse,
  ) {
    const started = performance.now()
    const requestId = requestIdOf(request)
    const fields: Record<string, unknown> = {}
    response.once('close', () => {
      const method = request.method ?? ''
      const durationMs = performance.now() - started
      const status = response.headersSent ? response.statusCode : clientLeft
      count(path, method, status).inc()
      observeDuration(path, method).observe(durationMs / 1000)
      const level = status >= 500 ? 'error' : quiet === true && status < 400 ? 'debug' : 'info'
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

  function carryOut(route: Route, handled: HandledRequest, exchange: Exchange): Promise<Answer> {
    if (route.scope === 'public') return route.handle(handled)
    const { credential, request, body } = exchange
    if (!credential) throw new Error('a route’s steps let a request without a credential pass')
    if (!route.idempotent) return route.handle(handled as ApiRequest)
    return onceByKey({ request, credential, body: body.bytes }, access.answers, () =>
      route.handle(handled as ApiRequest),
    )
  }

  /** What every answer to a request tells, whatever it is. */
  function headersOf({ request, route, rate }: Exchange, requestId: string): Headers {
    return {
      'X-Request-Id': requestId,
      ...crossOriginHeaders(route, corsOrigins, request),
      ...transportHeaders(clients.read(request)),
      ...(rate && rateLimitHeaders(rate)),
    }
  }

  return {
    fail: (error, request, response) => {
      const { fields, requestId } = observe({ path: '' }, request, response)
      logFailure(fields, error, renderError(response, { 'X-Request-Id': requestId }, error))
    },
    route: async (route, params, request, response) => {
      const { requestId, fields } = observe(route, request, response)
      const exchange: Exchange = {
        request,
        route,
        query: queryOf(request.url ?? ''),
        access,
        clients,
        admission,
        account: undefined,
        heldBytes: 0,
        heldBodyBytes: 0,
        credential: undefined,
        session: undefined,
        rate: undefined,
        body: { bytes: noBytes, type: '' },
      }
      try {
        for (const step of steps) {
          const pending = step(exchange)
          if (pending) await pending
        }
        fields.key_id = exchange.credential?.keyId
        const handled = new HandledRequest(exchange, { requestId, receivedAt: Date.now(), params, response, fields })
        const answer = await carryOut(route, handled, exchange)
        renderAnswer(response, headersOf(exchange, requestId), answer)
      } catch (error) {
        if (exchange.credential) fields.key_id = exchange.credential.keyId
        if (error instanceof SluiceError) await settle(route, exchange, error)
        logFailure(fields, error, renderError(response, headersOf(exchange, requestId), error))
      } finally {
        if (exchange.account) admission.release(exchange.account, exchange.heldBytes + exchange.heldBodyBytes)
      }
    },
  }
}

/**
 * What a handler gets of an exchange that has passed its steps. A class, for the accessor's sake: in an object literal
 * it would make each object a dictionary and let the whole request outlive the young generation; that alone was half of
 * the gateway's garbage collection (docs/benchmarks.md).
 */
class HandledRequest implements Omit<ApiRequest, 'credential'> {
  readonly requestId: string
  readonly receivedAt: number
  /** Undefined at public routes, whose handlers don't know it. */
  readonly credential: Credential | undefined
  readonly session: Session | undefined
  readonly params: Readonly<Record<string, string>>
  readonly query: ApiRequest['query']
  readonly body: ApiRequest['body']
  readonly log: ApiRequest['log']
  readonly #exchange: Exchange
  readonly #response: ServerResponse
  #abort: AbortController | undefined

  constructor(exchange: Exchange, { requestId, receivedAt, params, response, fields }: RequestScope) {
    const { credential, session, query, body } = exchange
    this.requestId = requestId
    this.receivedAt = receivedAt
    this.credential = credential
    this.session = session
    this.params = params
    this.query = plainQuery(query)
    this.body = body
    this.#exchange = exchange
    this.log = (more) => Object.assign(fields, more)
    this.#response = response
  }

  get client(): Client {
    return this.#exchange.clients.read(this.#exchange.request)
  }

  spend(cost: number): void | Promise<void> {
    return this.#exchange.rate?.spend(cost)
  }

  releaseBody(): void {
    const exchange = this.#exchange
    exchange.body.bytes = noBytes
    if (exchange.account) exchange.admission.release(exchange.account, exchange.heldBodyBytes)
    exchange.heldBodyBytes = 0
  }

  /** Made when a handler asks for it: most don't, and it is not cheap. */
  get signal(): AbortSignal {
    if (this.#abort) return this.#abort.signal
    const abort = new AbortController()
    this.#abort = abort
    const response = this.#response
    if (response.closed) abort.abort()
    response.once('close', () => {
      if (!response.writableFinished) abort.abort()
    })
    return abort.signal
  }
}

interface RequestScope {
  requestId: string
  receivedAt: number
  params: Readonly<Record<string, string>>
  response: ServerResponse
  /** Of the request's log line. */
  fields: Record<string, unknown>
}

/** What is too large costs nothing; what can't be read costs 1 where nobody could tell its cost (contract section 10). */
async function settle(route: Route, { rate }: Exchange, { status }: SluiceError): Promise<void> {
  if (status === 413) await rate?.giveBack()
  if (status === 400 && route.cost === 'body') await rate?.spendAtLeastOne()
}

/** What is retryable is told by its text, which names the reason: a stack costs more than the request did. */
function logFailure(fields: Record<string, unknown>, error: unknown, ours: unknown): void {
  if (error instanceof SluiceError) {
    fields.error = error.internal
    if (error.retryable) return
  }
  if (ours !== undefined) fields.err = ours
}

/** Status in logs and metrics of a request whose client left before the answer began, as nginx has it. */
const clientLeft = 499

/**
 * The request's id for its answer's `X-Request-Id` and its log line: a sane incoming one, short, printable and no key, so
 * that it can't forge log lines or headers, or a new one.
 */
export function requestIdOf(request: IncomingMessage): string {
  const incoming = request.headers['x-request-id']
  const isSane = typeof incoming === 'string' && /^[\w.:-]{1,128}$/.test(incoming) && !/svc_(prod|dev)_/.test(incoming)
  return isSane ? incoming : randomUUID()
}

/** Remembers what `make` gives per labels: prom-client would hash them at every request. */
function labelled<Labels extends (string | number)[], Child>(
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

const noBytes = Buffer.alloc(0)
const noQuery = new URLSearchParams()
const emptyQuery: Readonly<Record<string, string>> = Object.freeze(Object.create(null) as Record<string, string>)

function queryOf(url: string): URLSearchParams {
  const mark = url.indexOf('?')
  return mark < 0 ? noQuery : new URLSearchParams(url.slice(mark + 1))
}

/** Without `api_key`; a null prototype, so that `__proto__` is a parameter like any other. */
function plainQuery(query: URLSearchParams): ApiRequest['query'] {
  if (query.size === 0) return emptyQuery
  const plain = Object.create(null) as Record<string, string | string[]>
  for (const name of new Set(query.keys())) {
    if (name === 'api_key') continue
    const values = query.getAll(name)
    plain[name] = values.length === 1 && values[0] !== undefined ? values[0] : values
  }
  return plain
}
