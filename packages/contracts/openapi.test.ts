import { describe, expect, it } from '@jest/globals'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type joi from 'joi'
import { exampleOf } from './openapi-example.ts'
import { failuresOf, openApiDocument } from './openapi.ts'
import type { JsonSchema, OperationObject } from './openapi-types.ts'
import type { Operation } from './operation.ts'
import { operations } from './operations.ts'
import { validate } from './validate.ts'

const document = openApiDocument(operations, { version: '1.2.3' })
const { schemas } = document.components
const table: readonly Operation[] = Object.values(operations)

function described({ path, method }: Operation): OperationObject {
  const found = document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase() as 'get']
  if (!found) throw new Error(`${method} ${path} is not in the document`)
  return found
}

/** Every schema object in a part of the document; examples hold none. */
function schemasIn(part: unknown): JsonSchema[] {
  if (typeof part !== 'object' || part === null) return []
  const inner = Object.entries(part).flatMap(([key, value]) =>
    key === 'example' || key === 'examples' ? [] : schemasIn(value),
  )
  return 'type' in part && typeof part.type === 'string' ? [part as JsonSchema, ...inner] : inner
}

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1, and all its references lead somewhere', async () => {
    const validator = new Validator()
    // It puts references’ targets in place.
    const result = await validator.validate({ ...structuredClone(document) })
    expect(result).toEqual({ valid: true })
    expect(validator.version).toBe('3.1')
  })

  it('holds no schema that JSON Schema 2020-12 does not know', () => {
    const ajv = new Ajv2020({ allowUnionTypes: true })
    ajv.addVocabulary(['components'])
    for (const schema of schemasIn([document.paths, { ...document.components, securitySchemes: {} }])) {
      expect(() => ajv.compile({ ...schema, components: { schemas } })).not.toThrow()
    }
  })

  it('has every operation under its own name, with its section, status and scope', () => {
    for (const operation of table) {
      const { operationId, tags, responses, description } = described(operation)
      expect([operationId, ...tags]).toEqual([operation.id, operation.section])
      expect(responses).toHaveProperty([String(operation.answer.status)])
      expect(description).toContain(
        { public: 'no credential', authenticated: 'Any credential' }[operation.scope as string] ?? operation.scope,
      )
    }
    expect(new Set(table.map(({ id }) => id)).size).toBe(table.length)
  })

  it('closes every object of an answer, so that a field nobody described is found', () => {
    const answers = [
      ...Object.values(document.components.responses),
      ...table.flatMap((operation) => Object.values(described(operation).responses)),
      ...Object.entries(schemas).filter(([name]) => name !== 'Event'),
    ]
    // One of several objects is closed when these are.
    const open = schemasIn(answers).filter(
      ({ type, additionalProperties, anyOf }) => type === 'object' && additionalProperties !== false && !anyOf,
    )
    expect(open).toEqual([])
  })

  it.each(table.flatMap(({ body, ...operation }) => (body ? [{ ...operation, schema: body.schema }] : [])))(
    'gives an example of the body of $id that passes its checks',
    ({ schema, ...operation }) => {
      const example = described(operation).requestBody?.content['application/json']?.example
      const check = () => validate(schema as joi.ObjectSchema<object>, example, { receivedAt: Date.now() })
      expect(check).not.toThrow()
    },
  )

  it.each(table.flatMap(({ query, ...operation }) => (query ? [{ ...operation, schema: query }] : [])))(
    'gives an example of the query of $id that passes its checks',
    ({ schema: query, ...operation }) => {
      const examples = (described(operation).parameters ?? [])
        .filter(({ in: place, required, schema }) => place === 'query' && (required === true || schema.examples))
        .map(({ name, schema }) => [name, exampleOf(schema, schemas)])
      expect(() => validate(query as joi.ObjectSchema<object>, Object.fromEntries(examples))).not.toThrow()
    },
  )

  it('a public operation asks for no credential, another for any of three with its scope', () => {
    expect(described(operations.createSession).security).toEqual([])
    expect(described(operations.stats).security).toEqual([
      { bearer: ['stats:read'] },
      { api_key: ['stats:read'] },
      { session: ['stats:read'] },
    ])
  })

  it('an operation that two scopes grant asks for either', () => {
    const { security, description } = described(operations.retention)
    expect(security).toHaveLength(6)
    expect(security).toEqual(expect.arrayContaining([{ bearer: ['cohorts:read'] }, { bearer: ['stats:read'] }]))
    expect(description).toContain('`cohorts:read` or `stats:read`')
  })

  it('an idempotent operation takes Idempotency-Key, another does not', () => {
    const headersOf = (operation: Operation) =>
      (described(operation).parameters ?? []).filter((parameter) => parameter.in === 'header').map(({ name }) => name)
    expect(headersOf(operations.createSite)).toEqual(['Idempotency-Key'])
    expect(headersOf(operations.createKey)).toEqual([])
  })

  it('names where it is served', () => {
    expect(document.servers).toEqual([{ url: '/' }])
    const elsewhere = openApiDocument(operations, { version: '1.2.3', serverUrl: 'https://stats.example.com' })
    expect(elsewhere.servers).toEqual([{ url: 'https://stats.example.com' }])
    expect(elsewhere.info.version).toBe('1.2.3')
  })
})

describe('the failures of an operation', () => {
  const cases: [Operation, number[]][] = [
    [operations.collect, [400, 401, 403, 404, 413, 415, 429, 500, 503]],
    [operations.stats, [400, 401, 403, 404, 429, 500, 503]],
    [operations.createSession, [400, 401, 403, 413, 415, 429, 500, 503]],
    [operations.getSession, [401, 429, 500, 503]],
    [operations.deleteSession, [401, 403, 429, 500, 503]],
    [operations.getKey, [400, 401, 403, 404, 429, 500, 503]],
    [operations.createSite, [400, 401, 403, 409, 413, 415, 429, 500, 503]],
    [operations.createCohort, [400, 401, 403, 404, 409, 413, 415, 429, 500, 503]],
    [operations.retention, [400, 401, 403, 404, 429, 500, 503]],
  ]
  it.each(cases.map(([operation, expected]) => ({ id: operation.id, operation, expected })))(
    'follow from what $id takes',
    ({ operation, expected }) => {
      expect(failuresOf(operation)).toEqual(expected)
    },
  )
})
