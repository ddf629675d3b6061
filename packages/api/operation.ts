import joi from 'joi'
import type { LimitClass } from '@sluice/contracts/rate-limits'
import type { Scope } from '@sluice/contracts/scopes'
import type { ErrorStatus } from './error-status.ts'

/**
 * One operation of the HTTP interface, as data: its request, the credential that it needs and its response. The routers
 * of the services bind a handler to it (packages/http/handle.ts), packages/http checks requests against it, and the
 * OpenAPI document and the matrix of rights are generated from it.
 */
export interface Operation {
  /** Name of the operation in the OpenAPI document; the file of its handler has the same name in kebab-case. */
  id: string
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Path with `:name` parts, as in docs/http-interface.md#operations. */
  path: string
  /** Heading of the operation's section in /docs. */
  section: string
  /** The effect of the operation, in one sentence for its callers. */
  summary: string
  /** Scope that the credential needs. `authenticated`: any valid credential; `public`: no credential at all. */
  scope: Scope | 'authenticated' | 'public'
  /** Another scope that is sufficient too. */
  alternativeScope?: Scope
  /** The rate limit of the key that a request counts against. `public` operations have none. */
  limit?: LimitClass
  /**
   * Absent: a request costs 1, which is consumed before the scope is checked. `body`: the cost depends on the body, and
   * the handler consumes it with `ApiRequest.consume`. 0: a request is answered although the limit is exhausted.
   */
  cost?: 'body' | 0
  /** Where the request names the site or the object that the rights of a key depend on. */
  rights: Rights
  /**
   * Query parameters. The first problem in the order of the schema is reported. Absent: an operation below `/api`
   * accepts none.
   */
  query?: joi.ObjectSchema
  /** Absent: the body is not read. */
  body?: BodyRule
  response: {
    status: 200 | 201 | 202
    /** `data` of the envelope; absent: the envelope has none. */
    data?: joi.Schema
    /**
     * The whole body of the response, without the envelope, for clients of another product. `handle` (handle.ts) does not
     * support it: the handler returns a HandlerResult.
     */
    body?: joi.Schema
    /**
     * The response is a file of one of these media types instead of an envelope; the handler returns a FileResult. With
     * `data`, the client chooses between them by `Accept`, and the handler returns `{ data }` or `{ file }`.
     */
    file?: readonly string[]
    /**
     * Headers that the handler adds, with their description in the OpenAPI document; null: the document leaves the
     * header out.
     */
    headers?: Readonly<Record<string, string | null>>
  }
  /**
   * Error statuses besides those that follow from the other fields, e.g. 409, and 404 for an unknown site in the body.
   */
  errors?: readonly ErrorStatus[]
  /** An error whose body has `data`. */
  failureData?: { status: ErrorStatus; data: joi.Schema }
  /**
   * The operation accepts `Idempotency-Key` (docs/http-interface.md#idempotency). Responses are stored for it: an
   * operation with a file or a multipart body, or whose response always contains a secret, must not have it.
   */
  idempotent?: true
  /**
   * Whether the `data` of a response contains a secret that was generated for it. Such a response of an idempotent
   * operation is not stored: a repeat is carried out as if it had no `Idempotency-Key`.
   */
  containsGeneratedSecret?: (data: unknown) => boolean
  /** Pages of any origin may read the response, without cookies (docs/http-interface.md#cross-origin). */
  anyOrigin?: true
  /**
   * The operation is for clients of another product, and follows its conventions: the key is sent by Basic
   * authentication or as `writeKey` in the body, never in a cookie, a body without `Content-Type` is JSON,
   * `X-RateLimit-Reset` is in seconds from now, and errors have `code` and `message` (docs/http-interface.md#segment).
   */
  dialect?: 'segment'
  /**
   * Successful requests are logged at `debug` only, because they are frequent; metrics count them. A request that is
   * refused in part is logged at `info`.
   */
  quiet?: true
}

/** The response to a key that is bound to sites, for a foreign site or id; docs/rights.md is generated from it. */
export type Rights =
  /** Nothing in the request belongs to a site. */
  | { of: 'none' }
  /** All data belongs to the site of the key. A key that is not bound to exactly one site gets 403. */
  | { of: 'key' }
  /**
   * `site_id` of the query or the body. Reads of a foreign site are answered 404 as for an unknown site, writes 403.
   * Each element of `events` and `queries` has a `site_id` and an error of its own.
   */
  | { of: 'site'; in: 'query' | 'body' | 'events' | 'queries' }
  /** An id in the path: a foreign id is answered 404 like an unknown one. */
  | {
      of: 'object'
      parameter: string
      name: 'Site' | 'Key' | 'Cohort' | 'Import' | 'Export' | 'Erasure' | 'Webhook' | 'Alert rule'
    }
  /** A list, which leaves foreign entries out. */
  | { of: 'list' }

/** How the body of an operation is read; any other media type is answered 415. */
export type BodyRule = JsonBodyRule | BytesBodyRule | MultipartBodyRule

/** A JSON object, which is parsed and validated before the handler runs. */
export interface JsonBodyRule<Schema extends joi.ObjectSchema = joi.ObjectSchema> {
  kind: 'json'
  /** The handler receives the type of this schema. */
  schema: Schema
  /** Schema of the OpenAPI document, where it differs from the one that validates. */
  documented?: joi.Schema
  /** Size of the largest body in bytes, after decompression; a larger body is answered 413. */
  maxBytes: number
  /** A request without a body is treated as one with `{}`, whatever its media type. */
  optional?: true
}

/** Bytes that the handler parses itself: for bodies that may arrive thousands of times a second. */
export interface BytesBodyRule {
  kind: 'bytes'
  /** Accepted media types. */
  types: readonly string[]
  /** Schema of the JSON in the OpenAPI document. */
  documented: joi.Schema
  /** Size of the largest body in bytes, after decompression; a larger body is answered 413. */
  maxBytes: number
}

/** `multipart/form-data` with exactly one file, which the handler stores as a stream, and text fields. */
export interface MultipartBodyRule<Schema extends joi.ObjectSchema = joi.ObjectSchema> {
  kind: 'multipart'
  /** The text fields. They may stand before or after the file, and are validated when the body has ended. */
  fields: Schema
  /** Name of the file's field. */
  file: string
  /** Size of the largest file in bytes; a larger file is answered 413. */
  maxBytes: number
}

/**
 * Type of the values that a schema describes. `never` for a schema without a type (`joi.object({…})` in place of
 * `joi.object<T>({…})`): a handler for it does not compile.
 */
export type ValueOf<Schema> =
  Schema extends joi.ObjectSchema<infer Value> ? (0 extends 1 & Value ? never : Value) : never

/** The rule of a small JSON body: a body that is written by hand has less than 64 KiB. */
export function jsonBody<T>(schema: joi.ObjectSchema<T>): JsonBodyRule<joi.ObjectSchema<T>> {
  return { kind: 'json', schema, maxBytes: 64 * 1024 }
}

/** The rule of a small JSON body that may be left out, because all of its fields are optional. */
export function optionalJsonBody<T>(schema: joi.ObjectSchema<T>): JsonBodyRule<joi.ObjectSchema<T>> {
  return { ...jsonBody(schema), optional: true }
}

/**
 * The rule of requests that need no body. A body with a field is answered 400, like an unknown field in any other body.
 */
export const noFields = optionalJsonBody(joi.object<Record<string, never>>({}))

/**
 * The rule of a JSON body with criteria or the sites of a key: JSON may escape each of the 50,000 bytes of values as
 * six bytes, and each of the 64,000 characters of sites as twelve.
 */
export function largeJsonBody<T>(schema: joi.ObjectSchema<T>): JsonBodyRule<joi.ObjectSchema<T>> {
  return { ...jsonBody(schema), maxBytes: 1024 * 1024 }
}

const jsonMediaTypes = ['application/json'] as const
const multipartMediaTypes = ['multipart/form-data'] as const

/** Media types that a body may have. */
export function mediaTypesOf(
  body: { kind: 'json' | 'multipart' } | Pick<BytesBodyRule, 'kind' | 'types'>,
): readonly string[] {
  switch (body.kind) {
    case 'json':
      return jsonMediaTypes
    case 'bytes':
      return body.types
    case 'multipart':
      return multipartMediaTypes
  }
}
