import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { grants, type Scope, scopes } from '@sluice/contracts/scopes'
import { startQuery, type TestQuery } from './query.test-support.ts'

let query: TestQuery
let keys: Map<Scope, string>

beforeAll(async () => {
  query = await startQuery()
  keys = new Map()
  for (const scope of scopes) keys.set(scope, await query.createKey({ scopes: [scope] }))
})

afterAll(async () => {
  await query.stop()
})

/** The scope that the contract asks for, operation by operation: section 2's table. */
const operations: [method: string, path: string, scope: Scope][] = [
  ['GET', '/api/v1/stats', 'stats:read'],
  ['POST', '/api/v1/settings/keys', 'admin'],
  ['GET', '/api/v1/settings/keys', 'admin'],
  ['GET', '/api/v1/settings/keys/:key_id', 'admin'],
  ['DELETE', '/api/v1/settings/keys/:key_id', 'admin'],
]

test('every route is in the table', () => {
  expect(query.routes.map(({ method, path, scope }) => [method, path, scope])).toStrictEqual(operations)
})

describe.each(operations)('%s %s', (method, path, scope) => {
  const url = path.replace(/:\w+/, 'unknown')
  const ask = (key: string) => query.ask(url, { method, key, ...(method === 'POST' ? { body: {} } : {}) })

  test.each(scopes)('with a key of %s', async (held) => {
    const { status, body } = await ask(keys.get(held) ?? '')
    if (grants([held], scope)) {
      expect([200, 400, 404]).toContain(status)
    } else {
      expect(status).toBe(403)
      expect(body).toStrictEqual({
        success: false,
        error: `Insufficient scope: requires ${scope}`,
        timestamp: expect.any(Number),
      })
    }
  })

  test('401 without one', async () => {
    const { status, body } = await ask('')
    expect(status).toBe(401)
    expect(body.error).toBe('Invalid API key')
  })

  test('405 for other methods', async () => {
    const allowed = operations.filter(([, other]) => other === path).map(([name]) => name)
    for (const other of ['PUT', 'PATCH']) {
      const { status, headers } = await query.ask(url, { method: other })
      expect(status).toBe(405)
      expect(
        headers
          .get('allow')
          ?.split(', ')
          .filter((name) => name !== 'HEAD'),
      ).toStrictEqual(allowed)
    }
  })
})

test('the page at / has the address it was asked by, and echoes nothing that could be markup', async () => {
  const { url, port } = query.service
  const response = await fetch(url)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(await response.text()).toContain(`export SLUICE_URL=http://127.0.0.1:${port}`)
})
