import type { IncomingMessage } from 'node:http'
import type { RequestRateLimit } from '@sluice/access/request-rate-limit'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import type { Client, RouteRule } from './route.ts'

/** Headers that pages of other origins may read (docs/http-interface.md#cross-origin). */
const exposedHeaders = 'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Request-Id'
/** Headers of downloads and of repeated requests, which only `/api/v1` has. */
const exposedApiHeaders = `${exposedHeaders}, Content-Disposition, ETag, Content-Range, Accept-Ranges, Idempotency-Replayed`
const preflightSeconds = 86_400
/**
 * Segment's analytics.js sends `X-Retry-Count` with each retry, its client for Flutter sends `User-Agent`, for which
 * Firefox asks, and the browser SDK sends `baggage` where its option `propagate` names the origin of Sluice.
 */
const requestHeaders =
  'Authorization, Content-Type, Content-Encoding, Idempotency-Key, X-Request-Id, X-Retry-Count, User-Agent, Baggage'
/** Headers of requests for a part of a download. */
const apiRequestHeaders = `${requestHeaders}, Range, If-Range, If-Match, If-None-Match`

/** Headers of a response by name. */
export type Headers = Readonly<Record<string, string>>

const anyOrigin: Headers = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': exposedHeaders }
const none: Headers = {}

/** The field of a route that decides which pages of other origins may read its responses. */
export interface CorsRule {
  anyOrigin?: boolean | undefined
}

/** The rule for a path without a route: the rule of the route above it, e.g. of `/collect` for `/collect/x`. */
export function corsRuleOf(routes: readonly RouteRule[], path: string): CorsRule {
  return {
    anyOrigin: routes.some((route) => route.anyOrigin && (path === route.path || path.startsWith(`${route.path}/`))),
  }
}

/** Headers that let pages read the response: any page without cookies (`anyOrigin`), or pages of configured origins. */
export function corsHeaders(
  { anyOrigin: allowsAnyOrigin }: CorsRule,
  origins: ReadonlySet<string>,
  { headers: { origin } }: IncomingMessage,
): Headers {
  if (allowsAnyOrigin) return anyOrigin
  if (origins.size === 0) return none
  if (origin === undefined || !origins.has(origin)) return { Vary: 'Origin' }
  return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': exposedApiHeaders, Vary: 'Origin' }
}

/** The headers of the response to a preflight; undefined if the request is no preflight or the page is not allowed. */
export function preflightHeaders(
  routes: readonly RouteRule[],
  origins: ReadonlySet<string>,
  request: IncomingMessage,
): Headers | undefined {
  const { origin, 'access-control-request-method': method } = request.headers
  // Every path that takes GET takes HEAD.
  const route = routes.find((each) => each.method === (method === 'HEAD' ? 'GET' : method))
  if (origin === undefined || route === undefined) return undefined
  const headers = corsHeaders(route, origins, request)
  if (headers['Access-Control-Allow-Origin'] === undefined) return undefined
  return {
    ...headers,
    'Access-Control-Allow-Methods': routes.map((each) => each.method).join(', '),
    'Access-Control-Allow-Headers': route.anyOrigin ? requestHeaders : apiRequestHeaders,
    'Access-Control-Max-Age': String(preflightSeconds),
  }
}

/**
 * State of the rate limit. The reset is in Unix seconds by `clock`, as the `timestamp` of responses is, from which
 * clients subtract it; the limits count by the machine's clock, which may be far off. Whole seconds of the difference
 * keep the value the same for all requests of a window. For Segment's clients it is in seconds from now, as they expect.
 */
export function rateLimitHeaders(
  { limit, remaining, resetAt }: Pick<RequestRateLimit, 'limit' | 'remaining' | 'resetAt'>,
  clock: Pick<SynchronizedClock, 'now'>,
  { dialect }: Pick<RouteRule, 'dialect'> = {},
): Headers {
  const now = Date.now()
  const since = dialect === 'segment' ? now : Math.round((now - clock.now()) / 1000) * 1000
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(Math.max(0, Math.ceil((resetAt - since) / 1000))),
  }
}

/** Tells browsers that used HTTPS once to use only HTTPS for a year. */
export function transportHeaders({ isSecure }: Client): Headers {
  return isSecure ? { 'Strict-Transport-Security': 'max-age=31536000' } : none
}
