import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Credential, Session } from '@sluice/access/credential'
import { addLogFields } from './log-fields.ts'
import type { RequestContext } from './request-checks.ts'
import type { ApiRequest, Client } from './route.ts'

/** The body of a request that has none, or whose body has been released. */
export const noBytes = Buffer.alloc(0)
const emptyQuery: Readonly<Record<string, string>> = Object.freeze(Object.create(null) as Record<string, string>)

/** The parts of a request that a handler gets besides the context. */
interface RequestParts {
  requestId: string
  receivedAt: number
  params: Readonly<Record<string, string>>
  response: ServerResponse
  /** Fields of the log line of the request. */
  fields: Record<string, unknown>
}

/**
 * The request of a handler, after the checks (request-checks.ts); `handle` (handle.ts) replaces its query and body with
 * the validated ones. It is a class because of its accessors. V8 makes an object literal with accessors a dictionary,
 * and then the whole request outlives the young generation. That alone was half of the gateway's garbage collection
 * (docs/benchmarks.md).
 */
export class AdmittedRequest implements Omit<ApiRequest, 'credential'> {
  readonly requestId: string
  readonly receivedAt: number
  /** Undefined for public routes, whose handlers have no such field. */
  readonly credential: Credential | undefined
  readonly session: Session | undefined
  readonly params: Readonly<Record<string, string>>
  readonly query: ApiRequest['query']
  readonly body: ApiRequest['body']
  readonly log: ApiRequest['log']
  readonly #context: RequestContext
  readonly #response: ServerResponse
  #abort: AbortController | undefined

  constructor(context: RequestContext, { requestId, receivedAt, params, response, fields }: RequestParts) {
    const { credential, session, query, body } = context
    this.requestId = requestId
    this.receivedAt = receivedAt
    this.credential = credential
    this.session = session
    this.params = params
    this.query = plainQuery(query)
    this.body = body
    this.#context = context
    this.log = (more) => addLogFields(fields, more)
    this.#response = response
  }

  get client(): Client {
    return this.#context.clients.read(this.#context.request)
  }

  get accept(): string {
    return this.#context.request.headers.accept ?? ''
  }

  get incoming(): IncomingMessage {
    return this.#context.request
  }

  consume(cost: number): void | Promise<void> {
    return this.#context.rate?.consume(cost)
  }

  releaseBody(): void {
    const context = this.#context
    context.body.bytes = noBytes
    if (context.quota) context.admission.release(context.quota, context.reservedBodyBytes, context.network)
    context.reservedBodyBytes = 0
  }

  /** Created when a handler first reads it: most handlers don't, and it is not cheap. */
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

/** Without `api_key`; a null prototype, so that `__proto__` is a parameter like any other. */
function plainQuery(query: URLSearchParams): ApiRequest['query'] {
  if (query.size === 0) return emptyQuery
  const plain = Object.create(null) as Record<string, string | string[]>
  // One pass, because `getAll` for each name takes time quadratic in the number of parameters.
  for (const [name, value] of query) {
    if (name === 'api_key') continue
    const held = plain[name]
    if (held === undefined) plain[name] = value
    else if (typeof held === 'string') plain[name] = [held, value]
    else held.push(value)
  }
  return plain
}
