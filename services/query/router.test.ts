import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { grants, type Scope, scopes } from '@sluice/contracts/scopes'
import type { Route } from '@sluice/http/route'
import { startQuery, type TestQuery } from './query.test-support.ts'

let query: TestQuery
let keys: Map<Scope, string>

beforeAll(async () => {
  query = await startQuery()
  await migrateClickHouse(query.clickHouse.url)
  keys = new Map()
  for (const scope of scopes) keys.set(scope, await query.createKey({ scopes: [scope] }))
})

afterAll(async () => {
  await query.stop()
})

/** The scope that the contract asks for, operation by operation: section 2's table. */
const operations: [method: string, path: string, scope: Route['scope'], orScope?: Scope][] = [
  ['GET', '/api/v1/stats', 'stats:read'],
  ['POST', '/api/v1/stats/batch', 'stats:read'],
  ['GET', '/api/v1/live', 'stats:read'],
  ['GET', '/api/v1/properties', 'stats:read'],
  ['POST', '/api/v1/funnel', 'stats:read'],
  ['POST', '/api/v1/session', 'public'],
  ['GET', '/api/v1/session', 'authenticated'],
  ['DELETE', '/api/v1/session', 'authenticated'],
  ['POST', '/api/v1/settings/keys', 'admin'],
  ['GET', '/api/v1/settings/keys', 'admin'],
  ['GET', '/api/v1/settings/keys/:key_id', 'admin'],
  ['PUT', '/api/v1/settings/keys/:key_id', 'admin'],
  ['DELETE', '/api/v1/settings/keys/:key_id', 'admin'],
  ['POST', '/api/v1/settings/keys/:key_id/rotate', 'admin'],
  ['POST', '/api/v1/sites', 'admin'],
  ['GET', '/api/v1/sites', 'stats:read'],
  ['GET', '/api/v1/sites/:site_id', 'stats:read'],
  ['PUT', '/api/v1/sites/:site_id', 'admin'],
  ['POST', '/api/v1/cohorts', 'cohorts:write'],
  ['GET', '/api/v1/cohorts', 'cohorts:read'],
  ['POST', '/api/v1/cohorts/preview', 'cohorts:read'],
  ['GET', '/api/v1/cohorts/:cohort_id', 'cohorts:read'],
  ['PUT', '/api/v1/cohorts/:cohort_id', 'cohorts:write'],
  ['DELETE', '/api/v1/cohorts/:cohort_id', 'cohorts:write'],
  ['GET', '/api/v1/analytics/cohorts', 'cohorts:read'],
  ['GET', '/api/v1/analytics/retention', 'cohorts:read', 'stats:read'],
]

test('every route is in the table', () => {
  expect(
    query.routes.map(({ method, path, scope, orScope }) => [method, path, scope, ...(orScope ? [orScope] : [])]),
  ).toStrictEqual(operations)
})

describe.each(operations)('%s %s', (method, path, scope, orScope) => {
  const url = path.replace(/:\w+/, 'unknown')
  const ask = (key: string) =>
    query.ask(url, { method, key, ...(method === 'POST' || method === 'PUT' ? { body: {} } : {}) })

  test.each(scopes)('with a key of %s', async (held) => {
    const { status, body } = await ask(keys.get(held) ?? '')
    if (scope === 'public' || scope === 'authenticated' || grants([held], scope) || held === orScope) {
      expect([200, 400, 404]).toContain(status)
    } else {
      expect(status).toBe(403)
      expect(body).toStrictEqual({
        success: false,
        error: `Insufficient scope: requires ${scope}${orScope ? ` or ${orScope}` : ''}`,
        timestamp: expect.any(Number),
      })
    }
  })

  test('401 without one, unless none is asked for', async () => {
    const { status, body } = await ask('')
    expect(status).toBe(scope === 'public' ? 400 : 401)
    if (scope !== 'public') expect(body.error).toBe('Invalid API key')
  })

  test('405 for other methods', async () => {
    const allowed = operations.filter(([, other]) => other === path).map(([name]) => name)
    for (const other of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((name) => !allowed.includes(name))) {
      const { status, headers } = await query.ask(url, { method: other })
      expect(status).toBe(405)
      const named = headers.get('allow')?.split(', ') ?? []
      expect(named.filter((name) => name !== 'HEAD')).toStrictEqual(allowed)
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
