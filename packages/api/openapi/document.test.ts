import { describe, expect, it } from '@jest/globals'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import joi from 'joi'
import { validate } from '@sluice/runtime/validate'
import type { Operation } from '../operation.ts'
import { operations } from '../operations.ts'
import { documentedSchema, failuresOf, openApiDocument } from './document.ts'
import { exampleOf } from './example.ts'
import type { JsonSchema, OpenApiDocument, OperationObject } from './types.ts'

const document = openApiDocument(operations, { version: '1.2.3' })
const { schemas } = document.components
const described = [document.paths, document.webhooks, { ...document.components, securitySchemes: {} }]
const table: readonly Operation[] = Object.values(operations)

function describedOperation({ path, method }: Operation): OperationObject {
  const found = document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase() as 'get']
  if (!found) throw new Error(`${method} ${path} is not in the document`)
  return found
}

/** Every schema with a type in a part of the document, except in examples and in what a schema excludes. */
function everySchemaIn(part: unknown): JsonSchema[] {
  if (typeof part !== 'object' || part === null) return []
  const inner = Object.entries(part).flatMap(([key, value]) =>
    ['example', 'examples', 'not'].includes(key) ? [] : everySchemaIn(value),
  )
  return 'type' in part && (typeof part.type === 'string' || Array.isArray(part.type))
    ? [part as JsonSchema, ...inner]
    : inner
}

function hasType({ type = [] }: JsonSchema, wanted: string): boolean {
  return type === wanted || type.includes(wanted)
}

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1, and all its references can be resolved', async () => {
    const validator = new Validator()
    // The validator replaces references by their targets, hence the copy.
    const result = await validator.validate({ ...structuredClone(document) })
    expect(result).toEqual({ valid: true })
    expect(validator.version).toBe('3.1')
  })

  it('contains only valid schemas of JSON Schema 2020-12', () => {
    const ajv = new Ajv2020({ strictTypes: false, validateFormats: false })
    ajv.addVocabulary(['components'])
    for (const schema of everySchemaIn(described)) {
      expect(() => ajv.compile({ ...schema, components: { schemas } })).not.toThrow()
    }
  })

  it('has a format for each number that may exceed 32 bits, so that clients decode times', () => {
    const numbers = everySchemaIn(described).filter((schema) => hasType(schema, 'integer') || hasType(schema, 'number'))
    expect(numbers.length).toBeGreaterThan(100)
    const unnamed = numbers.filter((schema) =>
      hasType(schema, 'number')
        ? schema.format !== 'double'
        : schema.format !== 'int64' && (schema.maximum === undefined || schema.maximum >= 2 ** 31),
    )
    expect(unnamed).toEqual([])
    expect(schemas.Success?.properties?.timestamp).toMatchObject({ type: 'integer', format: 'int64' })
    expect(schemas.Site?.properties?.last_event_at).toMatchObject({ type: ['integer', 'null'], format: 'int64' })
    // An event’s timestamp may have a fraction, which is dropped.
    expect(schemas.Event?.properties?.timestamp).toMatchObject({ type: ['number', 'null'], format: 'double' })
  })

  it('says of each object without fields and of each list what it may hold', () => {
    const everySchema = everySchemaIn(described)
    const untyped = everySchema.filter(
      (schema) =>
        (hasType(schema, 'object') && !schema.properties && !schema.oneOf && !schema.additionalProperties) ||
        (hasType(schema, 'array') && !schema.items),
    )
    expect(untyped).toEqual([])
    expect(schemas.Event).toMatchObject({
      properties: { properties: { additionalProperties: true } },
      additionalProperties: true,
    })
    expect(schemas.StoredEvent?.properties?.properties?.additionalProperties).toHaveProperty('anyOf')
  })

  // Clients of openapi-generator merge the objects of an `anyOf` into one type, in which every field is required.
  it('has each choice between objects as `oneOf`', () => {
    const isObject = ({ $ref, type = [] }: JsonSchema): boolean => $ref !== undefined || hasType({ type }, 'object')
    const choices: Record<string, JsonSchema[]> = { anyOf: [], oneOf: [] }
    JSON.stringify(described, (key, value: JsonSchema[]) => {
      choices[key]?.push(...value)
      return value
    })
    expect(choices.oneOf?.some(isObject)).toBe(true)
    expect(choices.anyOf?.filter(isObject)).toEqual([])
  })

  // openapi-generator's clients for Go have a function `NewKey()` beside the type of a component `Key`, so that a
  // component `NewKey` would be declared twice.
  it('has no component with the name of a constructor of another one', () => {
    expect(Object.keys(schemas).filter((name) => `New${name}` in schemas)).toEqual([])
  })

  it('has every operation with its id, section, status and scope', () => {
    for (const operation of table) {
      const { operationId, tags, responses, description } = describedOperation(operation)
      expect([operationId, ...tags]).toEqual([operation.id, operation.section])
      expect(responses).toHaveProperty([String(operation.response.status)])
      expect(description).toContain(
        { public: 'No credential', authenticated: 'Any valid key' }[operation.scope as string] ?? operation.scope,
      )
    }
    expect(new Set(table.map(({ id }) => id)).size).toBe(table.length)
  })

  // Request bodies whose unknown fields are kept, and the payloads of deliveries.
  const openSchemas = ['Event', 'SegmentMessage', 'SegmentBatchedMessage', 'DeliveryData']

  const answersOf = ({ paths, components }: OpenApiDocument): unknown[] => [
    ...Object.values(components.responses),
    ...Object.values(paths).flatMap((item) => Object.values(item).map(({ responses }) => responses)),
    ...Object.entries(components.schemas).flatMap(([name, schema]) => (openSchemas.includes(name) ? [] : [schema])),
  ]

  it('allows additional properties in responses, because later versions add fields', () => {
    const closed = everySchemaIn(answersOf(document)).filter((schema) => schema.additionalProperties === false)
    expect(closed).toEqual([])
    expect(describedOperation(operations.createSite).requestBody?.content['application/json']?.schema).toMatchObject({
      additionalProperties: false,
    })
  })

  it('has no default in answers, because generators read it as a value that is always there', () => {
    expect(everySchemaIn(answersOf(document)).filter((schema) => 'default' in schema)).toEqual([])
  })

  it('allows none in the form for tests, which find undocumented fields by it', () => {
    const closed = openApiDocument(operations, { version: '1.2.3', closed: true })
    // A `oneOf` is closed if its alternatives are closed, which are checked themselves.
    const open = everySchemaIn(answersOf(closed)).filter(
      (schema) => hasType(schema, 'object') && (schema.additionalProperties ?? true) === true && !schema.oneOf,
    )
    expect(open).toEqual([])
  })

  it.each(
    table.flatMap(({ body, ...operation }) =>
      body && body.kind !== 'multipart' ? [{ ...operation, schema: documentedSchema(body) }] : [],
    ),
  )('has a valid example of the body of $id', ({ schema, ...operation }) => {
    const example = describedOperation(operation).requestBody?.content['application/json']?.example
    const check = () => validate(schema as joi.ObjectSchema<object>, example, { receivedAt: Date.now() })
    expect(check).not.toThrow()
  })

  it.each(table.flatMap(({ query, ...operation }) => (query ? [{ ...operation, schema: query }] : [])))(
    'has a valid example of the query of $id',
    ({ schema: query, ...operation }) => {
      const examples = (describedOperation(operation).parameters ?? [])
        .filter(({ in: place, required, schema }) => place === 'query' && (required === true || schema.examples))
        .map(({ name, schema }) => [name, exampleOf(schema, schemas)])
      expect(() => validate(query as joi.ObjectSchema<object>, Object.fromEntries(examples))).not.toThrow()
    },
  )

  it('requires no credential for a public operation, and any of three with the scope for another', () => {
    expect(describedOperation(operations.createSession).security).toEqual([])
    expect(describedOperation(operations.stats).security).toEqual([
      { bearer: ['stats:read'] },
      { api_key: ['stats:read'] },
      { session: ['stats:read'] },
    ])
  })

  it('requires either of two scopes for an operation with an alternative scope', () => {
    const { security, description } = describedOperation(operations.retention)
    expect(security).toHaveLength(6)
    expect(security).toEqual(expect.arrayContaining([{ bearer: ['cohorts:read'] }, { bearer: ['stats:read'] }]))
    expect(description).toContain('`cohorts:read` or `stats:read`')
  })

  it('has the header Idempotency-Key for idempotent operations only', () => {
    const headersOf = (operation: Operation) =>
      (describedOperation(operation).parameters ?? [])
        .filter((parameter) => parameter.in === 'header')
        .map(({ name }) => name)
    expect(headersOf(operations.createSite)).toEqual(['Idempotency-Key'])
    expect(headersOf(operations.createKey)).toEqual([])
  })

  it('has the URL of the server', () => {
    expect(document.servers).toEqual([{ url: '/' }])
    const elsewhere = openApiDocument(operations, { version: '1.2.3', serverUrl: 'https://stats.example.com' })
    expect(elsewhere.servers).toEqual([{ url: 'https://stats.example.com' }])
    expect(elsewhere.info.version).toBe('1.2.3')
  })

  it('has the URL of the gateway for its operations if it has another one', () => {
    const servers = [{ url: 'https://collect.example' }]
    const { paths } = openApiDocument(operations, { version: '1.2.3', collectUrl: 'https://collect.example' })
    for (const [path, item] of Object.entries(paths)) {
      const isOfGateway = /^\/(collect|v1)\b/.test(path)
      for (const each of Object.values(item)) {
        if (isOfGateway) expect(each.servers).toEqual(servers)
        else expect(each).not.toHaveProperty('servers')
      }
    }
    expect(JSON.stringify(document.paths)).not.toContain('"servers"')
  })
})

describe('the error statuses of an operation', () => {
  const cases: [Operation, number[]][] = [
    [operations.collect, [400, 401, 403, 404, 413, 415, 429, 500, 503]],
    [operations.stats, [400, 401, 403, 404, 429, 500, 503]],
    [operations.createSession, [400, 401, 403, 413, 415, 429, 500, 503]],
    [operations.getSession, [400, 401, 500, 503]],
    [operations.deleteSession, [400, 401, 403, 429, 500, 503]],
    [operations.getKey, [400, 401, 403, 404, 429, 500, 503]],
    [operations.createSite, [400, 401, 403, 409, 413, 415, 429, 500, 503]],
    [operations.createCohort, [400, 401, 403, 404, 409, 413, 415, 429, 500, 503]],
    [operations.retention, [400, 401, 403, 404, 429, 500, 503]],
  ]
  it.each(cases.map(([operation, expected]) => ({ id: operation.id, operation, expected })))(
    'follow from the request of $id',
    ({ operation, expected }) => expect(failuresOf(operation)).toEqual(expected),
  )
})

describe('the document of an operation with files', () => {
  const operation = {
    id: 'convert',
    method: 'POST',
    path: '/convert',
    section: 'Tests',
    summary: 'Converts a file.',
    scope: 'admin',
    limit: 'admin',
    rights: { of: 'none' },
    body: {
      kind: 'multipart',
      fields: joi.object<{ title: string }>({ title: joi.string().required() }),
      file: 'file',
      maxBytes: 1024 * 1024,
    },
    response: { status: 200, file: ['text/csv'] },
  } as const satisfies Operation
  const { requestBody, responses, parameters } =
    openApiDocument({ operation }, { version: '1' }).paths['/convert']?.post ?? {}

  it('describes the fields and the file as a form', () => {
    expect(Object.keys(requestBody?.content ?? {})).toEqual(['multipart/form-data'])
    expect(requestBody?.content['multipart/form-data']?.schema).toMatchObject({
      properties: { title: { type: 'string' }, file: { type: 'string', format: 'binary' } },
      required: ['title', 'file'],
    })
  })

  it('has the media type of the response and the statuses of ranges', () => {
    const file = { 'text/csv': { schema: { type: 'string', format: 'binary' } } }
    expect(responses?.[200]).toMatchObject({ content: file })
    expect(responses?.[206]).toMatchObject({ content: file })
    expect(responses).toHaveProperty('416')
  })

  it('has the headers of a request for a range', () => {
    expect(parameters?.map(({ name, in: place, required }) => [name, place, required])).toEqual([
      ['Range', 'header', undefined],
      ['If-Range', 'header', undefined],
      ['If-Match', 'header', undefined],
      ['If-None-Match', 'header', undefined],
    ])
  })

  it('has the headers of a file and of its ranges', () => {
    const required = { required: true }
    const whole = { 'Content-Disposition': required, ETag: required, 'Accept-Ranges': required }
    expect(responses?.[200]).toMatchObject({ headers: whole })
    expect(responses?.[200]).not.toHaveProperty('headers.Content-Range')
    expect(responses?.[206]).toMatchObject({ headers: { ...whole, 'Content-Range': required } })
    expect(document.components.responses.RangeNotSatisfiable).toMatchObject({ headers: { 'Content-Range': required } })
  })

  it('has Retry-After in the 409 of a download that is not ready', () => {
    const conflict = describedOperation(operations.downloadExport).responses[409]
    expect(conflict).toHaveProperty(['headers', 'Retry-After'])
    expect(conflict).not.toHaveProperty(['headers', 'Retry-After', 'required'])
    expect(describedOperation(operations.createExport).responses[409]).toHaveProperty('$ref')
  })

  it('has an optional name of the file where the client may choose JSON', () => {
    const listed = describedOperation(operations.listImportErrors).responses[200]
    expect(listed).toMatchObject({ headers: { 'Content-Disposition': {} } })
    expect(listed).not.toHaveProperty('headers.Content-Disposition.required')
    expect(listed).not.toHaveProperty('headers.ETag')
  })

  it('has the statuses of If-Match and If-None-Match', () => {
    expect(responses).toHaveProperty('412')
    expect(responses?.[304]).toMatchObject({ headers: { ETag: { required: true } }, content: {} })
  })
})
