import type { BodyRule, Operation } from '@sluice/contracts/operation'
import type { RateLimits } from '@sluice/contracts/limits'
import type { Environment, Scope } from '@sluice/contracts/scopes'

/** Who asks: what the steps before the handler found out about the credential. */
export interface Credential {
  keyId: string
  environment: Environment
  scopes: readonly Scope[]
  /** The sites that the key is bound to; null: it may name any. */
  siteIds: readonly string[] | null
  /** The key's own limits; null: the defaults. */
  rateLimits: RateLimits | null
  /** Unix ms; null: the key does not expire. */
  expiresAt: number | null
}

/** What a handler of a public operation is given; every step of steps.ts has passed. */
export interface PublicRequest {
  requestId: string
  /** Unix ms at which the last of the request was read: what a slow client takes to send it lies before. */
  receivedAt: number
  /** Who sent it, by what trusted proxies say. */
  client: Client
  /** The path's `:name` parts, decoded. */
  params: Readonly<Record<string, string>>
  /** Query parameters without `api_key`; a repeated one is a list. */
  query: Readonly<Record<string, string | string[]>>
  /** The decoded body: bytes and media type; empty for routes without one. */
  body: { bytes: Buffer; type: string }
  /** The body has served: its memory is free for others while the handler goes on. */
  releaseBody(): void
  /** Aborted when the client leaves before the answer. */
  signal: AbortSignal
  /** Fields for the request's one log line: ids and counts, never secrets or bodies. */
  log: (fields: Readonly<Record<string, string | number | boolean>>) => void
}

/** What every other handler is given. */
export interface ApiRequest extends PublicRequest {
  credential: Credential
  /** The session that the credential comes from. */
  session: Session | undefined
  /**
   * Counts `cost` against the limit of the route's class, for routes that say `cost: 'body'`. Throws 429 when it does
   * not fit, then nothing is counted; 413 when it never could.
   */
  spend(cost: number): void | Promise<void>
}

export interface Session {
  /** SHA-256 of its token. */
  hash: string
  /** Unix ms, when nothing is asked on it any more. */
  expiresAt: number
}

export interface Client {
  address: string
  /** The client speaks HTTPS, to us or to a trusted proxy. */
  isSecure: boolean
}

/** What a handler answers; the envelope (`success`, `timestamp`) is added around it. */
export interface Answer {
  status: 200 | 201 | 202
  data?: unknown
  headers?: Readonly<Record<string, string>>
}

/** What the steps must know of an operation; contracts/operation.ts says what each field means. */
export type RouteRule = Pick<
  Operation,
  'method' | 'path' | 'scope' | 'orScope' | 'limit' | 'cost' | 'idempotent' | 'anyOrigin' | 'quiet'
> & { body?: Pick<BodyRule, 'types' | 'maxBytes'> }

/** An operation of the interface with what carries it out. The tables are services/<service>/router.ts. */
export type Route = RouteRule &
  (
    | { scope: 'public'; handle: (request: PublicRequest) => Promise<Answer> }
    | { scope: Exclude<Operation['scope'], 'public'>; handle: (request: ApiRequest) => Promise<Answer> }
  )
