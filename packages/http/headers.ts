import type { IncomingMessage } from 'node:http'
import type { RateLimit } from './rate-limit.ts'
import type { Client, RouteRule } from './route.ts'

/** What pages of other origins may read (contract section 1). */
const exposed = 'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Request-Id'
const preflightSeconds = 86_400
const requestHeaders = 'Authorization, Content-Type, Content-Encoding, Idempotency-Key, X-Request-Id'

export type Headers = Readonly<Record<string, string>>

const anyOrigin: Headers = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': exposed }
const none: Headers = {}

/** Which pages may read answers: any at /collect, without cookies; at /api/v1 those of configured origins alone. */
export function crossOriginHeaders(
  { anyOrigin: isOpen }: Pick<RouteRule, 'anyOrigin'>,
  origins: ReadonlySet<string>,
  { headers: { origin } }: IncomingMessage,
): Headers {
  if (isOpen) return anyOrigin
  if (origins.size === 0) return none
  if (origin === undefined || !origins.has(origin)) return { Vary: 'Origin' }
  return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': exposed, Vary: 'Origin' }
}

/** The answer to a browser's question whether a page may send a request; undefined: it is no such question, or it may not. */
export function preflightHeaders(
  routes: readonly RouteRule[],
  origins: ReadonlySet<string>,
  request: IncomingMessage,
): Headers | undefined {
  const { origin, 'access-control-request-method': method } = request.headers
  const route = routes.find((each) => each.method === method)
  if (origin === undefined || route === undefined) return undefined
  const headers = crossOriginHeaders(route, origins, request)
  if (headers['Access-Control-Allow-Origin'] === undefined) return undefined
  return {
    ...headers,
    'Access-Control-Allow-Methods': routes.map((each) => each.method).join(', '),
    'Access-Control-Allow-Headers': requestHeaders,
    'Access-Control-Max-Age': String(preflightSeconds),
  }
}

/** Seconds for the reset, as clients of other services expect. */
export function rateLimitHeaders({ limit, remaining, resetAt }: RateLimit): Headers {
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(Math.ceil(resetAt / 1000)),
  }
}

/** Browsers that came by HTTPS once shall not come without it again. */
export function transportHeaders({ isSecure }: Client): Headers {
  return isSecure ? { 'Strict-Transport-Security': 'max-age=31536000' } : none
}
