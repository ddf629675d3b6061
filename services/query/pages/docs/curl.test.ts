import { describe, expect, it } from '@jest/globals'
import type { OperationObject } from '@sluice/api/openapi/types'
import { curlExample } from './curl.ts'

const plain: OperationObject = {
  operationId: 'x',
  tags: ['x'],
  summary: '',
  description: '',
  security: [{}],
  responses: {},
}
const withBody = (example: unknown): OperationObject => ({
  ...plain,
  requestBody: { description: '', required: true, content: { 'application/json': { schema: {}, example } } },
})
const example = (method: string, operation: OperationObject): string =>
  curlExample({ method, path: '/things', operation }, {})

describe('the curl example of an operation', () => {
  it.each([
    ['GET', plain, 'curl -s "$SLUICE_URL/things"'],
    ['DELETE', plain, 'curl -s -X DELETE "$SLUICE_URL/things"'],
    ['POST', plain, 'curl -s -X POST "$SLUICE_URL/things"'],
    ['POST', withBody({}), 'curl -s "$SLUICE_URL/things"'],
    ['PUT', withBody({}), 'curl -s -X PUT "$SLUICE_URL/things"'],
  ])('%s', (method, operation, start) => expect(example(method, operation).split(' \\\n')[0]).toBe(start))

  it('has a key only for operations that require a credential', () => {
    expect(example('GET', plain)).toContain('Bearer $SLUICE_KEY')
    expect(example('GET', { ...plain, security: [] })).not.toContain('SLUICE_KEY')
  })

  it('has the server of an operation that has its own', () => {
    const operation = { ...plain, servers: [{ url: 'https://collect.example' }] }
    expect(example('GET', operation)).toContain('curl -s "https://collect.example/things"')
  })

  it('quotes the body for a shell and takes the key from its variable', () => {
    const command = example('POST', withBody({ name: "Ada's", key: 'svc_prod_…' }))
    expect(command).toContain(`-d '{"name":"Ada'\\''s","key":"'"$SLUICE_KEY"'"}'`)
  })

  it('sends the fields of a form with their examples, and a file', () => {
    const schema = {
      properties: {
        type: { enum: ['events'] },
        file: { type: 'string', contentMediaType: 'application/octet-stream' },
      },
    }
    const requestBody = { description: '', required: true as const, content: { 'multipart/form-data': { schema } } }
    const command = example('POST', { ...plain, requestBody })
    expect(command.split(' \\\n')[0]).toBe('curl -s "$SLUICE_URL/things"')
    expect(command).toContain("-F type='events' \\\n  -F file=@events.csv")
  })

  it('fills the path and the query from the examples of their parameters', () => {
    const operation: OperationObject = {
      ...plain,
      parameters: [
        { name: 'thing_id', in: 'path', required: true, schema: { examples: ['a b'] } },
        { name: 'size', in: 'query', required: true, schema: { enum: ['s&l'] } },
        { name: 'colour', in: 'query', schema: { examples: ['red'] } },
        { name: 'shape', in: 'query', schema: { type: 'string' } },
      ],
    }
    const command = curlExample({ method: 'GET', path: '/things/{thing_id}', operation }, {})
    expect(command).toContain('"$SLUICE_URL/things/a%20b?size=s%26l&colour=red"')
  })
})
