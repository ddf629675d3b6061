import type joi from 'joi'
import { contentEncodings } from '@sluice/contracts/media-types'
import { defaultLimits, limitWindowSeconds } from '@sluice/contracts/rate-limits'
import type { ErrorStatus } from '../error-status.ts'
import { type BodyRule, mediaTypesOf, type MultipartBodyRule, type Operation } from '../operation.ts'
import { envelope, errorEnvelope } from './envelopes.ts'
import { exampleOf } from './example.ts'
import { failures } from './failures.ts'
import {
  bytes,
  contentRange,
  fileContents,
  fileHeaders,
  hasRanges,
  notModified,
  partOf,
  rangeParameters,
  waitForFile,
} from './files.ts'
import { headers, headersOf, rateHeaders } from './headers.ts'
import { idempotencyKey } from './idempotency-key.ts'
import { withOpenAnswers } from './open-answers.ts'
import { toJsonSchema } from './schema.ts'
import type {
  JsonSchema,
  MediaType,
  OpenApiDocument,
  OperationObject,
  Parameter,
  Reference,
  RequestBody,
  Response,
} from './types.ts'
import { describeWebhooks } from './webhooks.ts'

type Schemas = Record<string, JsonSchema>

/** The description of the interface: rules that apply to all operations. */
const description = `Requests and answers are JSON. Every answer has \`success\` and \`timestamp\` (Unix ms), except that of \`segmentSettings\`. Successful answers with a result have \`data\`; failures have \`error\`. Every answer has the header \`X-Request-Id\`: a valid one of the request is returned, otherwise Sluice generates one. All times are Unix milliseconds, lengths are counted in code points, and NUL characters are refused in every text.

Clients send a key as \`Authorization: Bearer <key>\`, or as \`?api_key=\` where they can't set a header. Browsers may open a session and send its cookie. The header takes precedence over the query, and the query over the cookie. Answers to a valid credential show the state of its rate limit: \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\`, \`X-RateLimit-Reset\`. Unknown fields and parameters are refused, except in events, where they are stored as properties. Later versions add fields to answers: clients must ignore those that they do not know. In optional fields of an event, \`null\` and \`""\` mean that the field is absent, and so does \`""\` in an optional parameter of a read; the lists of allowed values omit it.

Sluice checks a request in this order: path, method, credential, rate limit, scope, content type, body, site. The answer names only the first problem.

When the services run separately, the gateway serves \`/collect\`, \`/collect/batch\` and \`/v1\`, and the query service everything else.`

export interface DocumentOptions {
  version: string
  serverUrl?: string
  collectUrl?: string | undefined
  closed?: boolean
}

/**
 * The OpenAPI 3.1 document of a table of operations, which /openapi.json serves, /docs renders and tests compare with
 * responses. `serverUrl` is the base URL of the interface; by default the origin that serves the document.
 * `collectUrl` is the base URL of the gateway's operations, if it differs. With `closed`, no object of a response may
 * have other fields than those of the document, so that tests find them.
 */
export function openApiDocument(
  operations: Readonly<Record<string, Operation>>,
  { version, serverUrl = '/', collectUrl, closed = false }: DocumentOptions,
): OpenApiDocument {
  const table = Object.values(operations)
  const schemas: Schemas = {
    Success: envelope(),
    Error: errorEnvelope({}),
    SegmentError: errorEnvelope({ dialect: 'segment' }),
  }
  const responses: Record<string, Response> = {}
  const paths: OpenApiDocument['paths'] = {}
  for (const operation of table) {
    const path = operation.path.replace(/:(\w+)/g, '{$1}')
    const method = operation.method.toLowerCase() as Lowercase<Operation['method']>
    paths[path] = { ...paths[path], [method]: describeOperation(operation, { schemas, responses, collectUrl }) }
  }
  const document: OpenApiDocument = {
    openapi: '3.1.1',
    info: {
      title: 'Sluice',
      version,
      summary: 'Self-hosted event analytics: durable ingestion, statistics that are exact or marked as estimates.',
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: serverUrl }],
    tags: [...new Set(table.map(({ section }) => section))].map((name) => ({ name })),
    paths,
    webhooks: describeWebhooks(schemas),
    components: { securitySchemes, schemas: sorted(schemas), headers, responses: sorted(responses) },
  }
  return closed ? document : withOpenAnswers(document)
}

/** The error statuses that an operation may respond with, in ascending order (docs/http-interface.md#errors). */
export function failuresOf(operation: Operation): ErrorStatus[] {
  const { method, path, scope, limit, cost, rights, body, response, errors = [], idempotent } = operation
  const isPublic = scope === 'public'
  const isWrite = method !== 'GET'
  const takesPath = path.includes(':')
  const conditions: [ErrorStatus, boolean][] = [
    // A parameter that is not known.
    [400, true],
    [401, !isPublic],
    // A missing scope, a cookie sent by a page of another site, or a site that the key is not bound to.
    [403, !isPublic && (scope !== 'authenticated' || isWrite)],
    [404, takesPath || (rights.of === 'site' && rights.in === 'query')],
    [409, idempotent === true],
    [412, hasRanges(response)],
    [413, body !== undefined],
    [415, body !== undefined],
    [416, hasRanges(response)],
    [429, limit !== undefined && cost !== 0],
    [500, true],
    [503, true],
  ]
  const statuses = conditions.filter(([, applies]) => applies).map(([status]) => status)
  return [...new Set([...statuses, ...errors])].sort((a, b) => a - b)
}

const securitySchemes: OpenApiDocument['components']['securitySchemes'] = {
  bearer: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer <key>`.' },
  api_key: {
    type: 'apiKey',
    in: 'query',
    name: 'api_key',
    description: 'An API key in the query, for clients that can’t set a header. Proxies may log it: prefer the header.',
  },
  write_key: {
    type: 'http',
    scheme: 'basic',
    description:
      'An API key as the user name, without a password, as Segment’s clients send it. They may send it as `writeKey` in the body instead.',
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'session',
    description: 'The session that `createSession` opened, for browsers.',
  },
}

interface Shared {
  schemas: Schemas
  responses: Record<string, Response>
  collectUrl: string | undefined
}

function describeOperation(operation: Operation, shared: Shared): OperationObject {
  const { id, section, summary, scope, limit, body } = operation
  const parameters = parametersOf(operation, shared.schemas)
  const answer = success(operation, shared.schemas)
  return {
    operationId: id,
    tags: [section],
    summary,
    description: [describeAccess(operation), operation.anyOrigin && 'Pages of any origin may call it.']
      .filter(Boolean)
      .join(' '),
    security:
      scope === 'public'
        ? []
        : sufficientScopes(operation).flatMap((roles) => schemesOf(operation).map((name) => ({ [name]: roles }))),
    ...(isOfGateway(operation) && shared.collectUrl !== undefined && { servers: [{ url: shared.collectUrl }] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: requestBody(body, shared.schemas) }),
    responses: {
      [operation.response.status]: answer,
      ...(hasRanges(operation.response) && {
        206: partOf(answer),
        304: notModified(headersOf(limit === undefined ? [] : rateHeaders)),
      }),
      ...Object.fromEntries(failuresOf(operation).map((status) => [status, failure(status, operation, shared)])),
    },
  }
}

/** Whether the gateway serves the operation when the services run separately. */
function isOfGateway({ limit, dialect }: Operation): boolean {
  return limit === 'events' || dialect !== undefined
}

/** The ways to send a credential. Segment's clients may also send it in the body. */
function schemesOf({ dialect }: Operation): string[] {
  return dialect === 'segment' ? ['write_key', 'bearer', 'api_key'] : ['bearer', 'api_key', 'session']
}

/** Alternative lists of scopes, each of which is sufficient. OpenAPI 3.1 allows them in all security requirements. */
function sufficientScopes({ scope, alternativeScope }: Operation): string[][] {
  if (scope === 'authenticated') return [[]]
  return alternativeScope === undefined ? [[scope]] : [[scope], [alternativeScope]]
}

function describeAccess(operation: Operation): string {
  const { scope, limit, cost } = operation
  if (scope === 'public') return 'No credential is needed.'
  const scopes = sufficientScopes(operation).map((each) => `\`${each.join('')}\``)
  const needs =
    scope === 'authenticated'
      ? 'Any valid key or session is sufficient.'
      : `The scope ${scopes.join(' or ')} is required.`
  if (limit === undefined) return needs
  const counted = cost !== 'body' ? 'request' : limit === 'events' ? 'event' : 'query'
  const limitText = defaultLimits[limit].toLocaleString('en')
  return `${needs} Each ${counted} counts against the limit of \`${limit}\`: ${limitText} in ${limitWindowSeconds} seconds, unless the key has its own limit.`
}

function parametersOf(operation: Operation, schemas: Schemas): Parameter[] {
  const { path, query, idempotent, containsGeneratedSecret, response } = operation
  const parameters: Parameter[] = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1, examples: [pathExamples[name] ?? name] },
  }))
  if (query) {
    const { properties = {}, required = [] } = toJsonSchema(query, 'input', schemas)
    for (const [name, { description, ...property }] of Object.entries(properties)) {
      parameters.push({
        name,
        in: 'query',
        ...(required.includes(name) && { required: true }),
        ...(description !== undefined && { description }),
        // A query parameter can't be null.
        schema: Array.isArray(property.type) ? { ...property, type: property.type[0] ?? 'string' } : property,
      })
    }
  }
  if (idempotent) parameters.push(idempotencyKey({ mayHaveGeneratedSecret: containsGeneratedSecret !== undefined }))
  if (hasRanges(response)) parameters.push(...rangeParameters)
  return parameters
}

const pathExamples: Readonly<Record<string, string>> = {
  site_id: 'my-site',
  key_id: 'key_01KAK5V6Z0F3N8Q2R7T4W9X1YB',
  cohort_id: 'coh_01KAK5V6Z0F3N8Q2R7T4W9X1YB',
  import_id: 'imp_01KAK5V6Z0F3N8Q2R7T4W9X1YB',
  export_id: 'exp_01KAK5V6Z0F3N8Q2R7T4W9X1YB',
}

function requestBody(body: BodyRule, schemas: Schemas): RequestBody {
  if (body.kind === 'multipart') return multipartBody(body, schemas)
  const json = toJsonSchema(documentedSchema(body), 'input', schemas)
  const example = exampleOf(json, schemas)
  const contents: Record<string, MediaType> = {
    'application/json': { schema: json, example },
    // Beacons of browsers send JSON as text/plain, which needs no preflight.
    'text/plain': {
      schema: {
        type: 'string',
        contentMediaType: 'application/json',
        description:
          'The same JSON, as beacons send it. It may be compressed with gzip even without `Content-Encoding`: Sluice recognises gzip by its first two bytes.',
      },
      example: JSON.stringify(example),
    },
    'application/x-ndjson': {
      schema: { type: 'string', description: 'One JSON object per line; each is an event.' },
      example: toJsonLines(example),
    },
  }
  return {
    description: `At most ${sizeOf(body.maxBytes)} after decompression. \`Content-Encoding\` may be ${contentEncodings.map((each) => `\`${each}\``).join(', ')}.`,
    required: body.kind !== 'json' || body.optional !== true,
    content: Object.fromEntries(mediaTypesOf(body).map((type) => [type, contents[type] ?? { schema: {} }])),
  }
}

/** The schema of a body's JSON in the document. */
export function documentedSchema(body: Exclude<BodyRule, MultipartBodyRule>): joi.Schema {
  return body.kind === 'json' ? (body.documented ?? body.schema) : body.documented
}

function multipartBody({ fields, file, maxBytes }: MultipartBodyRule, schemas: Schemas): RequestBody {
  const { properties = {}, required = [], ...form } = toJsonSchema(fields, 'input', schemas)
  const schema: JsonSchema = {
    ...form,
    properties: { ...properties, [file]: { ...bytes, contentMediaType: 'application/octet-stream' } },
    required: [...required, file],
  }
  return {
    description: `The file may have at most ${sizeOf(maxBytes)}. \`Content-Encoding\` is not accepted.`,
    required: true,
    content: { 'multipart/form-data': { schema } },
  }
}

function sizeOf(bytes: number): string {
  const kib = bytes / 1024
  if (kib % 1024 ** 2 === 0) return `${kib / 1024 ** 2} GiB`
  return kib % 1024 === 0 ? `${kib / 1024} MiB` : `${kib} KiB`
}

/** The items of a batch as NDJSON. */
function toJsonLines(batch: unknown): string {
  const [items] = Object.values(batch as Record<string, unknown>)
  return Array.isArray(items) ? items.map((item) => `${JSON.stringify(item)}\n`).join('') : ''
}

const successReference: JsonSchema = { $ref: '#/components/schemas/Success' }

function success({ limit, idempotent, response }: Operation, schemas: Schemas): Response {
  const data = response.data && toJsonSchema(response.data, 'output', schemas)
  const body = response.body && toJsonSchema(response.body, 'output', schemas)
  return {
    description: response.status === 201 ? 'Created' : response.status === 202 ? 'Accepted' : 'Done',
    headers: {
      ...headersOf(limit === undefined ? [] : rateHeaders),
      ...(idempotent && {
        'Idempotency-Replayed': {
          description: '`true`: this is the stored answer to an earlier request with the same `Idempotency-Key`.',
          schema: { const: 'true' },
        },
      }),
      ...fileHeaders(response),
      ...Object.fromEntries(
        Object.entries(response.headers ?? {}).flatMap(([name, text]) =>
          text === null ? [] : [[name, { description: text, required: true, schema: { type: 'string' } }]],
        ),
      ),
    },
    content: {
      ...(body ? json(body) : (data ?? !response.file) ? json(data ? envelope(data) : successReference) : {}),
      ...fileContents(response.file),
    },
  }
}

function failure(
  status: ErrorStatus,
  { limit, failureData, dialect, response: success }: Operation,
  shared: Shared,
): Response | Reference {
  const { name, meaning } = failures[status]
  const data = failureData?.status === status ? toJsonSchema(failureData.data, 'output', shared.schemas) : undefined
  // Other errors may come before the rate limit, e.g. for a path that can't be decoded, or for a key in the body.
  const isAboutRequest = [409, 413, 415, 429].includes(status)
  const isCounted = isAboutRequest && limit !== undefined && (dialect === undefined || status === 429)
  const isAboutFile = status === 409 && hasRanges(success)
  const prefix = dialect === 'segment' ? 'Segment' : ''
  const response: Response = {
    description: meaning,
    headers: {
      ...headersOf([
        ...(isCounted ? rateHeaders : []),
        ...(status === 401 ? ['WWW-Authenticate'] : []),
        ...(status === 429 || status === 503 ? ['Retry-After'] : []),
      ]),
      ...(status === 416 && contentRange),
      ...(isAboutFile && waitForFile),
    },
    content: json(data ? errorEnvelope({ data, dialect }) : { $ref: `#/components/schemas/${prefix}Error` }),
  }
  if (data || isAboutFile) return response
  const component = `${prefix}${isAboutRequest && !isCounted ? 'Uncounted' : ''}${name}`
  shared.responses[component] ??= response
  return { $ref: `#/components/responses/${component}` }
}

function json(schema: JsonSchema): Record<string, MediaType> {
  return { 'application/json': { schema } }
}

function sorted<T>(entries: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1)))
}
