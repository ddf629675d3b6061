import type { BytesBodyRule, Operation, ValueOf } from '@sluice/api/operation'
import { invalidField } from '@sluice/runtime/errors'
import { shownName, validate } from '@sluice/runtime/validate'
import { parseJsonBody } from './json-body.ts'
import type { ApiRequest, FileResult, HandlerResult, PublicRequest, Route } from './route.ts'
import { createUpload, type PendingUpload, type Upload } from './upload.ts'

/** An operation whose body is validated or stored as a file; handlers of `bytes` read their requests themselves. */
export type BoundOperation = Operation & { body?: Exclude<Operation['body'], BytesBodyRule> }

/** Names of the `:name` parts of a path. */
type ParamNames<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamNames<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never

type BodyOf<O extends Operation> = O extends { body: infer Body }
  ? Body extends { kind: 'json'; schema: infer Schema }
    ? ValueOf<Schema>
    : Body extends { kind: 'multipart'; fields: infer Fields }
      ? Upload<ValueOf<Fields>>
      : never
  : undefined

/** A request to an operation after the checks and the validation. */
export type RequestOf<O extends Operation> = Omit<
  O['scope'] extends 'public' ? PublicRequest : ApiRequest,
  'params' | 'query' | 'body' | 'incoming'
> & {
  /** The `:name` parts of the path, decoded. */
  params: Readonly<Record<ParamNames<O['path']>, string>>
  /** The validated query; undefined for an operation without a schema for it. */
  query: O extends { query: infer Schema } ? ValueOf<Schema> : undefined
  /** The validated body (`json`) or the upload (`multipart`); undefined without a body. */
  body: BodyOf<O>
}

type DataOf<O extends Operation> = O['response'] extends { data: infer Schema } ? ValueOf<Schema> : undefined

type DataHeaders<Data, Name extends string> = { headers: Readonly<Record<Name, string>> } & (Data extends undefined
  ? unknown
  : { data: Data })

/**
 * The result of an operation's handler: the `data` of the response, nothing for a response without data, a
 * FileResult for a file; `{ data, headers }` where the operation declares headers, `{ data }` or `{ file }` where it
 * declares both.
 */
export type ResultOf<O extends Operation> = O['response'] extends { file: readonly string[] }
  ? O['response'] extends { data: unknown }
    ? { data: DataOf<O> } | { file: FileResult }
    : FileResult
  : O['response'] extends { headers: infer Headers }
    ? DataHeaders<DataOf<O>, keyof Headers & string>
    : O['response'] extends { data: unknown }
      ? DataOf<O>
      : // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- A handler without data may just end.
        void

/**
 * Binds a handler to its operation. The handler receives the validated query, body and path parameters with the types
 * of the schemas in the table, and returns the data; the status comes from the table.
 *
 * The checks of request-checks.ts have passed before; query and body are validated within the claim of an
 * `Idempotency-Key` (idempotency.ts), so that a reused key is answered 409 even if the new body is invalid. Throws at
 * once for an operation whose response can't be stored for an `Idempotency-Key`.
 */
export function handle<const O extends BoundOperation>(
  operation: O,
  handler: (request: RequestOf<O>) => Promise<ResultOf<O>>,
): Route {
  const { response, body, idempotent } = operation as BoundOperation
  if (idempotent && (body?.kind === 'multipart' || response.file || response.headers)) {
    throw new Error(`${operation.id} can't be idempotent: neither files, multipart bodies nor headers are stored`)
  }
  return {
    ...operation,
    handle: async (request: ApiRequest) => {
      const validated = { query: readQueryOf(operation, request), body: readBodyOf(operation, request) }
      try {
        // Assigned, because a copy would call the accessors of the request, which are not cheap.
        return toHandlerResult(response, await handler(Object.assign(request, validated) as unknown as RequestOf<O>))
      } catch (error) {
        if (body?.kind === 'multipart') await (validated.body as PendingUpload).removeStored()
        throw error
      }
    },
  } as Route
}

function toHandlerResult({ status, data, file, headers }: Operation['response'], result: unknown): HandlerResult {
  if (file && data) return { status, ...(result as Omit<HandlerResult, 'status'>) }
  if (file) return { status, file: result as FileResult }
  if (headers) return { status, ...(result as Omit<HandlerResult, 'status'>) }
  return result === undefined ? { status } : { status, data: result }
}

/** Throws 400 for an invalid query. An operation without a schema for its query accepts no parameter. */
function readQueryOf({ query }: Operation, request: ApiRequest): unknown {
  if (query) return validate(query, { ...request.query })
  const [unknown] = Object.keys(request.query)
  if (unknown !== undefined) throw invalidField(shownName(unknown), 'is not a known parameter')
  return undefined
}

/** Throws 400 for an invalid body. */
function readBodyOf({ body }: BoundOperation, request: ApiRequest): unknown {
  switch (body?.kind) {
    case undefined:
      return undefined
    case 'json':
      return validate(
        body.schema,
        body.optional && request.body.bytes.length === 0 ? {} : parseJsonBody(request.body.bytes),
      )
    case 'multipart':
      return createUpload(body, request)
  }
}
