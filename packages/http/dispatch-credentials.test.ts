import { describe, expect, test } from '@jest/globals'
import { scopes } from '@sluice/contracts/scopes'
import { useTestRoutes } from '../../tests/support/use-test-routes.ts'

const testRoutes = useTestRoutes()
const { key, devKey, reader, admin, revoked, expired, unknown } = testRoutes.keys
const { sendRequest } = testRoutes

describe('401 with the same body and challenge is the answer to', () => {
  const mistyped = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`

  test.each([
    ['no credential', {}],
    ['an unknown key', { Authorization: `Bearer ${unknown}` }],
    ['a revoked key', { Authorization: `Bearer ${revoked}` }],
    ['an expired key', { Authorization: `Bearer ${expired}` }],
    ['a mistyped key', { Authorization: `Bearer ${mistyped}` }],
    ['half a key', { Authorization: `Bearer ${key.slice(0, 20)}` }],
    ['two keys', { Authorization: `Bearer ${key} ${key}` }],
    ['no key after the scheme', { Authorization: 'Bearer' }],
    ['the key without a scheme', { Authorization: key }],
    ['another scheme', { Authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` }],
    ['the key in another header', { 'X-Api-Key': key }],
    ['a cookie', { Cookie: `session=${key}` }],
  ])('%s', async (_what, headers) => {
    const answer = await sendRequest('/things/a', { key: '', headers })
    expect(answer.status).toBe(401)
    expect(answer.body).toStrictEqual({ success: false, error: 'Invalid API key', timestamp: expect.any(Number) })
    expect(answer.headers.get('WWW-Authenticate')).toBe('Bearer realm="Sluice"')
    expect(testRoutes.lastRequest).toBeUndefined()
  })

  test.each(['', 'x', '__proto__', `${key}%00`, 'a'.repeat(10_000)])('the query ?api_key=%s', async (sentKey) => {
    expect((await sendRequest(`/things/a?api_key=${sentKey}`, { key: '' })).status).toBe(401)
  })
})

describe('a credential', () => {
  test('in the header is accepted with the scheme in any letter case', async () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  ']) {
      expect((await sendRequest('/things/a', { key: '', headers: { Authorization: `${scheme} ${key}` } })).status).toBe(
        200,
      )
    }
  })

  test('in the query is accepted', async () => {
    expect((await sendRequest(`/things/a?api_key=${key}`, { key: '' })).status).toBe(200)
    expect((await sendRequest(`/things/a?a=1&api_key=${key}&b=2`, { key: '' })).status).toBe(200)
  })

  test('in the header takes precedence over one in the query, even when it is invalid', async () => {
    const both = (header: string, query: string) =>
      sendRequest(`/things/a?api_key=${query}`, { key: '', headers: { Authorization: header } })
    expect((await both(`Bearer ${key}`, unknown)).status).toBe(200)
    expect((await both(`Bearer ${unknown}`, key)).status).toBe(401)
    expect((await both('Bearer', key)).status).toBe(401)
  })

  test('in the query is used when the Authorization scheme is not Bearer', async () => {
    const headers = { Authorization: 'Basic dXNlcjpwYXNz' }
    expect((await sendRequest(`/things/a?api_key=${key}`, { key: '', headers })).status).toBe(200)
  })

  test('reaches the handler with its rights, without the key', async () => {
    await sendRequest(`/things/a?api_key=${devKey}&api_key=x`, { key: '' })
    expect(testRoutes.lastRequest?.credential).toStrictEqual({
      keyId: 'key_dev',
      name: 'key 1',
      environment: 'dev',
      scopes: ['events:write'],
      siteIds: null,
      rateLimits: null,
      allowedOrigins: null,
      expiresAt: null,
    })
    expect(testRoutes.lastRequest?.query).toEqual({})
    expect(JSON.stringify(testRoutes.lastRequest)).not.toContain(devKey)
  })
})

describe('scopes', () => {
  const scopesByKey: Record<string, readonly string[]> = {
    [key]: ['events:write'],
    [reader]: ['stats:read'],
    [admin]: scopes,
  }

  test.each(scopes)('%s is required by the routes that declare it', async (scope) => {
    for (const [heldKey, granted] of Object.entries(scopesByKey)) {
      const { status, body } = await sendRequest(`/scope/${scope.replace(':', '-')}`, { key: heldKey })
      expect(status).toBe(granted.includes(scope) ? 200 : 403)
      if (status === 403) expect(body.error).toBe(`Insufficient scope: requires ${scope}`)
    }
  })
})
