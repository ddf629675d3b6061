import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { Credential, Session } from '@sluice/access/credential'
import type { BytesBodyRule, JsonBodyRule, MultipartBodyRule, Operation } from '@sluice/api/operation'

/** The request of a public operation after every check of request-checks.ts. */
export interface PublicRequest {
  requestId: string
  /** Unix ms at which the whole body had been read, so that the time of sending is not included. */
  receivedAt: number
  /** Address and protocol of the client, as trusted proxies report them. */
  client: Client
  /** The `:name` parts of the path, decoded. */
  params: Readonly<Record<string, string>>
  /** Query parameters without `api_key`; a repeated one is a list. */
  query: Readonly<Record<string, string | string[]>>
  /** The decompressed body and its media type; empty for a route without a body and for a multipart body. */
  body: { bytes: Buffer; type: string }
  /** The header `Accept`, '' without one; `prefersType` (prefers-type.ts) reads it. */
  accept: string
  /** Node's request, for operations that read their body as a stream. */
  incoming?: IncomingMessage
  /** Releases the memory that the body has reserved, while the handler continues without the body. */
  releaseBody(): void
  /** Aborted when the client disconnects before the response is sent. */
  signal: AbortSignal
  /** Adds fields to the log line of the request: ids and counts, never secrets or bodies. */
  log: (fields: Readonly<Record<string, string | number | boolean>>) => void
}

/** The request of every other operation. */
export interface ApiRequest extends PublicRequest {
  credential: Credential
  /** The session that the credential comes from. */
  session: Session | undefined
  /**
   * Consumes `cost` from the rate limit of the key, for operations with `cost: 'body'`. Throws 429 and consumes nothing
   * if less than `cost` is left, 413 if `cost` is above the whole limit.
   */
  consume(cost: number): void | Promise<void>
}

/** The sender of a request, as trusted proxies report it. */
export interface Client {
  address: string
  /** True when the client uses HTTPS, to the service itself or to a trusted proxy. */
  isSecure: boolean
  /** The host of the URL that the client uses, with its port; undefined without a header `Host`. */
  host: string | undefined
}

/** The result of a route's handler: a file, or the data for the envelope (`success`, `timestamp`). */
export interface HandlerResult {
  status: 200 | 201 | 202
  data?: unknown
  /** The whole body, which is sent as JSON in place of the envelope. */
  body?: object
  file?: FileResult
  headers?: Readonly<Record<string, string>>
}

/** A file as a handler returns it; `sendFile` (send-file.ts) turns it into the response. */
export interface FileResult {
  contentType: string
  /** Name under which a browser saves the file. */
  fileName: string
  /**
   * Size of the whole file in bytes, and an entity tag without quotes, which changes with the content. Undefined for a
   * file that is made while it is sent; such a file has no ranges.
   */
  content?: { size: number; etag: string }
  /**
   * Opens the file, or the bytes from `start` to `end`, both included. The stream is destroyed when the client leaves.
   * Not called for HEAD.
   */
  open(range?: ByteRange): Promise<Readable>
}

/** Positions of the first and the last byte. */
export interface ByteRange {
  start: number
  end: number
}

/** The fields of an operation that the checks read; packages/api/operation.ts describes them. */
export type RouteRule = Pick<
  Operation,
  | 'method'
  | 'path'
  | 'scope'
  | 'alternativeScope'
  | 'limit'
  | 'cost'
  | 'idempotent'
  | 'containsGeneratedSecret'
  | 'anyOrigin'
  | 'dialect'
  | 'quiet'
> & { body?: RouteBody } & Partial<Pick<Operation, 'rights'>>

/** The fields of a body's rule that the checks read. */
export type RouteBody =
  | Pick<JsonBodyRule, 'kind' | 'maxBytes' | 'optional'>
  | Pick<BytesBodyRule, 'kind' | 'types' | 'maxBytes'>
  | Pick<MultipartBodyRule, 'kind' | 'maxBytes'>

/** An operation with its handler. The tables of routes are services/<service>/router.ts. */
export type Route = RouteRule &
  (
    | { scope: 'public'; handle: (request: PublicRequest) => Promise<HandlerResult> }
    | { scope: Exclude<Operation['scope'], 'public'>; handle: (request: ApiRequest) => Promise<HandlerResult> }
  )
