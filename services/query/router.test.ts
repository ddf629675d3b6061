import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { grants, type Scope, scopes } from '@sluice/contracts/scopes'
import type { Route } from '@sluice/http/route'
import { startQuery, type TestQuery } from '../../tests/support/query.ts'

let query: TestQuery
let keys: Map<Scope, string>

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  keys = new Map()
  for (const scope of scopes) keys.set(scope, await query.createKey({ scopes: [scope] }))
})

afterAll(async () => {
  await query.stop()
})

/** The scope that each operation requires (docs/http-interface.md#scopes). */
const operations: [method: string, path: string, scope: Route['scope'], alternativeScope?: Scope][] = [
  ['GET', '/api/v1/stats', 'stats:read'],
  ['POST', '/api/v1/stats/batch', 'stats:read'],
  ['GET', '/api/v1/live', 'stats:read'],
  ['GET', '/api/v1/properties', 'stats:read'],
  ['GET', '/api/v1/events', 'stats:read'],
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
  ['DELETE', '/api/v1/sites/:site_id', 'admin'],
  ['POST', '/api/v1/sites/:site_id/erasures', 'admin'],
  ['GET', '/api/v1/sites/:site_id/erasures/:erasure_id', 'admin'],
  ['POST', '/api/v1/cohorts', 'cohorts:write'],
  ['GET', '/api/v1/cohorts', 'cohorts:read'],
  ['POST', '/api/v1/cohorts/preview', 'cohorts:read'],
  ['GET', '/api/v1/cohorts/:cohort_id', 'cohorts:read'],
  ['PUT', '/api/v1/cohorts/:cohort_id', 'cohorts:write'],
  ['DELETE', '/api/v1/cohorts/:cohort_id', 'cohorts:write'],
  ['GET', '/api/v1/analytics/cohorts', 'cohorts:read'],
  ['GET', '/api/v1/analytics/retention', 'cohorts:read', 'stats:read'],
  ['POST', '/api/v1/imports', 'events:write'],
  ['GET', '/api/v1/imports', 'events:write'],
  ['GET', '/api/v1/imports/:import_id', 'events:write'],
  ['GET', '/api/v1/imports/:import_id/errors', 'events:write'],
  ['POST', '/api/v1/imports/:import_id/cancel', 'events:write'],
  ['POST', '/api/v1/exports', 'stats:read', 'cohorts:read'],
  ['GET', '/api/v1/exports', 'stats:read', 'cohorts:read'],
  ['GET', '/api/v1/exports/:export_id', 'stats:read', 'cohorts:read'],
  ['PUT', '/api/v1/exports/:export_id', 'stats:read', 'cohorts:read'],
  ['DELETE', '/api/v1/exports/:export_id', 'stats:read', 'cohorts:read'],
  ['GET', '/api/v1/exports/:export_id/runs', 'stats:read', 'cohorts:read'],
  ['GET', '/api/v1/exports/:export_id/download', 'stats:read', 'cohorts:read'],
  ['POST', '/api/v1/webhooks', 'admin'],
  ['GET', '/api/v1/webhooks', 'admin'],
  ['GET', '/api/v1/webhooks/:webhook_id', 'admin'],
  ['PUT', '/api/v1/webhooks/:webhook_id', 'admin'],
  ['DELETE', '/api/v1/webhooks/:webhook_id', 'admin'],
  ['POST', '/api/v1/webhooks/:webhook_id/test', 'admin'],
  ['POST', '/api/v1/webhooks/:webhook_id/rotate-secret', 'admin'],
  ['GET', '/api/v1/webhooks/:webhook_id/deliveries', 'admin'],
  ['GET', '/api/v1/webhooks/:webhook_id/deliveries/:delivery_id', 'admin'],
  ['POST', '/api/v1/webhooks/:webhook_id/deliveries/:delivery_id/replay', 'admin'],
  ['POST', '/api/v1/webhooks/:webhook_id/recover', 'admin'],
  ['POST', '/api/v1/alerts', 'admin'],
  ['GET', '/api/v1/alerts', 'admin'],
  ['POST', '/api/v1/alerts/preview', 'admin'],
  ['GET', '/api/v1/alerts/:rule_id', 'admin'],
  ['PUT', '/api/v1/alerts/:rule_id', 'admin'],
  ['DELETE', '/api/v1/alerts/:rule_id', 'admin'],
  ['GET', '/api/v1/alerts/:rule_id/history', 'admin'],
  ['POST', '/api/v1/alerts/:rule_id/test', 'admin'],
]

test('every route is in the table', () => {
  expect(
    query.routes.map(({ method, path, scope, alternativeScope }) => [
      method,
      path,
      scope,
      ...(alternativeScope ? [alternativeScope] : []),
    ]),
  ).toStrictEqual(operations)
})

describe.each(operations)('%s %s', (method, path, scope, alternativeScope) => {
  const url = path.replace(/:\w+/g, 'unknown')
  const requestWith = (key: string) =>
    query.request(url, { method, key, ...(method === 'POST' || method === 'PUT' ? { body: {} } : {}) })

  test.each(scopes)('allows or refuses a key of %s by its scope', async (held) => {
    const { status, body } = await requestWith(keys.get(held) ?? '')
    if (scope === 'public' || scope === 'authenticated' || grants([held], scope) || held === alternativeScope) {
      // 415: an upload takes no JSON.
      expect([200, 400, 404, 415]).toContain(status)
    } else {
      expect(status).toBe(403)
      expect(body).toStrictEqual({
        success: false,
        error: `Insufficient scope: requires ${scope}${alternativeScope ? ` or ${alternativeScope}` : ''}`,
        timestamp: expect.any(Number),
      })
    }
  })

  test('responds with 401 without a key, unless the operation is public', async () => {
    const { status, body } = await requestWith('')
    expect(status).toBe(scope === 'public' ? 400 : 401)
    if (scope !== 'public') expect(body.error).toBe('Invalid API key')
  })

  test('responds with 405 to other methods', async () => {
    const allowed = operations.filter(([, other]) => other === path).map(([name]) => name)
    for (const other of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((name) => !allowed.includes(name))) {
      const { status, headers } = await query.request(url, { method: other })
      expect(status).toBe(405)
      const named = headers.get('allow')?.split(', ') ?? []
      expect(named.filter((name) => name !== 'HEAD')).toStrictEqual(allowed)
    }
  })
})

test('the dashboard is at /', async () => {
  const response = await fetch(query.service.url)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(response.headers.get('content-security-policy')).toContain("; connect-src 'self'; ")
})
