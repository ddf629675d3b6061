import type { Environment, LimitClass, Scope } from '@sluice/contracts/scopes'

/** Who asks: what the steps before the handler found out about the credential. */
export interface Credential {
  keyId: string
  environment: Environment
  scopes: readonly Scope[]
}

/** What a handler is given; every step of steps.ts has passed. */
export interface ApiRequest {
  requestId: string
  /** Unix ms at which the request's headers were read. */
  receivedAt: number
  credential: Credential
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

/** What a handler answers; the envelope (`success`, `timestamp`) is added around it. */
export interface Answer {
  status: 200 | 201 | 202
  data?: unknown
  headers?: Readonly<Record<string, string>>
}

/**
 * One operation, as data: what to check before its handler runs, in the order of contract section 1.
 * The tables are services/<service>/router.ts.
 */
export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Path with `:name` parts, as in the contract. */
  path: string
  scope: Scope
  limit: LimitClass
  /** Absent: a body is not read. */
  body?: BodyRule
  /** Its successes come by the thousand: they are counted by the metrics, and logged at `debug` only. */
  quiet?: boolean
  handle: (request: ApiRequest) => Promise<Answer>
}

export interface BodyRule {
  /** Media types taken; anything else is 415. */
  types: readonly string[]
  /** Largest body after decompression; anything larger is 413. */
  maxBytes: number
}
