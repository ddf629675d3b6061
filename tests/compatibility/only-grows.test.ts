import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { openApiDocument } from '@sluice/api/openapi/document'
import { operations } from '@sluice/api/operations'
import { breakingChanges, type Document } from './breaking-changes.ts'

const today = JSON.parse(JSON.stringify(openApiDocument(operations, { version: '0.0.0' }))) as Document

/** The document of the previous release, from the history of the clone. */
function previous(): Document {
  const commit = readFileSync(new URL('../previous-release', import.meta.url), 'utf8').trim()
  try {
    const text = execFileSync('git', ['show', `${commit}:tests/golden/files/openapi.json`], {
      cwd: import.meta.dirname,
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 64 * 1024 * 1024,
    })
    return JSON.parse(text.toString()) as Document
  } catch (error) {
    throw new Error(`The clone lacks commit ${commit} of tests/previous-release: run "git fetch --unshallow".`, {
      cause: error,
    })
  }
}

test('the HTTP interface has everything that it had in the previous release', () => {
  expect(breakingChanges(previous(), today)).toStrictEqual([])
})

/** The present document as untyped JSON, so that tests can remove something from it. */
interface Loose {
  paths: Record<string, Record<string, LooseOperation>>
}
interface LooseOperation {
  parameters: { name: string; in: string; required?: boolean; schema: { enum?: unknown[]; type?: string } }[]
  requestBody: { content: Record<string, { schema: LooseSchema }> }
  responses: Record<string, { content: Record<string, { schema: LooseSchema }> }>
}
interface LooseSchema {
  type?: unknown
  enum?: unknown[]
  properties: Record<string, LooseSchema>
  required?: string[]
}

describe('what is taken away is found', () => {
  const base: Loose = {
    paths: {
      '/api/v1/things': {
        get: {
          parameters: [
            { name: 'site_id', in: 'query', required: true, schema: { type: 'string' } },
            { name: 'by', in: 'query', schema: { type: 'string', enum: ['day', 'week'] } },
          ],
          requestBody: {
            content: {
              'application/json': {
                schema: {
                  type: 'object',
                  properties: { name: { type: 'string', properties: {} } },
                  required: ['name'],
                },
              },
            },
          },
          responses: {
            200: {
              content: {
                'application/json': {
                  schema: {
                    type: 'object',
                    properties: {
                      data: {
                        type: 'object',
                        properties: {
                          count: { type: 'integer', properties: {} },
                          note: { type: 'string', properties: {} },
                        },
                        required: ['count'],
                      },
                    },
                    required: ['data'],
                  },
                },
              },
            },
          },
        },
      },
    },
  }

  const certain = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('the base has it')
    return value
  }
  const things = (document: Loose) => certain(document.paths['/api/v1/things']?.get)
  const bodyOf = (document: Loose) => certain(things(document).requestBody.content['application/json']).schema
  const dataOf = (document: Loose) =>
    certain(things(document).responses[200]?.content['application/json']?.schema.properties.data)
  const changed = (change: (document: Loose) => void): string[] => {
    const after = structuredClone(base)
    change(after)
    return breakingChanges(base as unknown as Document, after as unknown as Document)
  }

  test.each<[string, (document: Loose) => void, string[]]>([
    ['nothing', () => undefined, []],
    ['an operation', (d) => delete d.paths['/api/v1/things'], ['GET /api/v1/things was removed']],
    [
      'a field of a response',
      (d) => delete dataOf(d).properties.count,
      ['GET /api/v1/things: response 200.data.count was removed'],
    ],
    [
      'an optional field of a response',
      (d) => delete dataOf(d).properties.note,
      ['GET /api/v1/things: response 200.data.note was removed'],
    ],
    [
      'the certainty of a field',
      (d) => (dataOf(d).required = []),
      ['GET /api/v1/things: response 200.data.count may be missing now'],
    ],
    [
      'the type of a field',
      (d) => (dataOf(d).properties.count = { type: ['integer', 'null'], properties: {} }),
      ['GET /api/v1/things: response 200.data.count has other types'],
    ],
    ['a response', (d) => delete things(d).responses[200], ['GET /api/v1/things: response 200 was removed']],
    ['a parameter', (d) => things(d).parameters.pop(), ['GET /api/v1/things: parameter by was removed']],
    [
      'the choice to leave out a parameter',
      (d) => Object.assign(things(d).parameters[1] ?? {}, { required: true }),
      ['GET /api/v1/things: parameter by is required now'],
    ],
    [
      'a value of a parameter',
      (d) => things(d).parameters[1]?.schema.enum?.pop(),
      ['GET /api/v1/things: parameter by takes fewer values'],
    ],
    ['a field of a body', (d) => delete bodyOf(d).properties.name, ['GET /api/v1/things: body.name was removed']],
    [
      'bodies without a new field',
      (d) => {
        bodyOf(d).properties.more = { type: 'string', properties: {} }
        bodyOf(d).required?.push('more')
      },
      ['GET /api/v1/things: body.more is required now'],
    ],
  ])('%s', (_, change, expected) => expect(changed(change)).toStrictEqual(expected))

  test('and what is added is not', () => {
    const more = changed((d) => {
      d.paths['/api/v1/more'] = structuredClone(d.paths['/api/v1/things'] ?? {})
      things(d).parameters.push({ name: 'more', in: 'query', schema: { type: 'string' } })
      things(d).parameters[1]?.schema.enum?.push('month')
      bodyOf(d).properties.more = { type: 'string', properties: {} }
      bodyOf(d).required = []
      dataOf(d).properties.more = { type: 'string', properties: {} }
      dataOf(d).required?.push('note')
    })
    expect(more).toStrictEqual([])
  })
})

describe('in the document of today', () => {
  test('nothing differs from itself', () => expect(breakingChanges(today, structuredClone(today))).toStrictEqual([]))

  test('no path can go unnoticed', () => {
    for (const [path, methods] of Object.entries(today.paths)) {
      const before = { ...today, paths: { [path]: methods } }
      expect(breakingChanges(before, { ...today, paths: {} })).toStrictEqual(
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${path} was removed`),
      )
    }
  })

  test('no delivery can go or lose a header unnoticed', () => {
    for (const [kind, { post }] of Object.entries(today.webhooks ?? {})) {
      const before = { ...today, webhooks: { [kind]: { post } } }
      expect(breakingChanges(before, { ...today, webhooks: {} })).toStrictEqual([`delivery ${kind} was removed`])
      const bare = { ...today, webhooks: { [kind]: { post: { ...post, parameters: [] } } } }
      expect(breakingChanges(before, bare)).toContain(`delivery ${kind}: header x-svc-signature may be missing now`)
    }
  })

  test('no schema can lose a field unnoticed', () => {
    const schemas = Object.entries(today.components?.schemas ?? {})
    const unnoticed = schemas.flatMap(([name, { properties }]) => {
      const [field] = Object.keys(properties ?? {})
      if (field === undefined) return []
      const after = structuredClone(today) as unknown as { components: { schemas: Record<string, LooseSchema> } }
      delete after.components.schemas[name]?.properties[field]
      return breakingChanges(today, after as unknown as Document).length === 0 ? [`${name}.${field}`] : []
    })
    expect(schemas.length).toBeGreaterThan(20)
    expect(unnoticed).toStrictEqual([])
  })
})
