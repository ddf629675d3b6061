import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/contracts/api-key'
import { waitUntil } from '@sluice/engines/processes'
import { startQuery, type TestQuery } from '../query.test-support.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery({ trustedProxies: ['loopback'] })
})

afterAll(async () => {
  await query.stop()
})

const day = 86_400_000
let addresses = 0
/** Each test comes from an address of its own: failures are counted by address. */
const nextAddress = () => `203.0.113.${addresses++}`

const open = (body: unknown, headers: Record<string, string> = {}) =>
  query.ask('/api/v1/session', {
    method: 'POST',
    key: '',
    body,
    headers: { 'X-Forwarded-For': nextAddress(), ...headers },
  })

interface Opened {
  session_token: string
  expires_at: number
  key_id: string
  scopes: string[]
}

async function opened(key: string): Promise<{ Cookie: string; data: Opened }> {
  const { body } = await open({ api_key: key })
  const data = body.data as Opened
  return { Cookie: `session=${data.session_token}`, data }
}

const withCookie = (path: string, Cookie: string, method = 'GET') =>
  query.ask(path, { method, key: '', headers: { Cookie } })

describe('201', () => {
  test('a key opens a session that stands for it', async () => {
    const key = await query.createKey({ scopes: ['stats:read'] })
    const before = Date.now()
    const { status, headers, body } = await open({ api_key: key })
    expect(status).toBe(201)
    const data = body.data as Opened
    expect(Object.keys(data)).toStrictEqual(['session_token', 'expires_at', 'key_id', 'scopes'])
    expect(data.session_token).toMatch(/^[\w-]{43}$/)
    expect(data.scopes).toStrictEqual(['stats:read'])
    expect(data.expires_at - before - day).toBeGreaterThanOrEqual(0)
    expect(data.expires_at - Date.now() - day).toBeLessThanOrEqual(0)
    expect(headers.get('set-cookie')).toBe(
      `session=${data.session_token}; Max-Age=604800; Path=/; HttpOnly; SameSite=Lax`,
    )
    const Cookie = `session=${data.session_token}`
    expect((await withCookie('/api/v1/stats', Cookie)).status).toBe(400)
    expect((await withCookie('/api/v1/settings/keys', Cookie)).status).toBe(403)
  })

  test('the cookie is Secure behind HTTPS', async () => {
    const key = await query.createKey({ scopes: ['stats:read'] })
    const { headers } = await open({ api_key: key }, { 'X-Forwarded-Proto': 'https' })
    expect(headers.get('set-cookie')).toContain('; Secure')
    expect(headers.get('strict-transport-security')).toBe('max-age=31536000')
  })

  test('neither token nor key is in the log', async () => {
    const { data } = await opened(query.admin)
    await withCookie('/api/v1/session', `session=${data.session_token}`)
    expect(query.service.text()).not.toContain(data.session_token)
    expect(query.service.text()).not.toContain(query.admin)
  })
})

describe('a session', () => {
  test('tells who asks, as a key does', async () => {
    const { Cookie, data } = await opened(query.admin)
    const mine = await withCookie('/api/v1/session', Cookie)
    expect(mine.body.data).toMatchObject({ key_id: data.key_id, scopes: ['admin'] })
    const { expires_at: expiresAt } = mine.body.data as Opened
    expect(Math.abs(expiresAt - Date.now() - day)).toBeLessThan(10_000)
    expect((await query.ask('/api/v1/session')).body.data).toStrictEqual({
      key_id: data.key_id,
      scopes: ['admin'],
      expires_at: null,
    })
  })

  test('ends with DELETE, which takes the cookie back', async () => {
    const { Cookie } = await opened(query.admin)
    const { status, headers } = await withCookie('/api/v1/session', Cookie, 'DELETE')
    expect(status).toBe(200)
    expect(headers.get('set-cookie')).toContain('session=; Max-Age=0')
    expect((await withCookie('/api/v1/session', Cookie)).status).toBe(401)
  })

  test('dies with its key', async () => {
    const key = await query.createKey({ scopes: ['stats:read'] })
    const { Cookie, data } = await opened(key)
    expect((await withCookie('/api/v1/session', Cookie)).status).toBe(200)
    await query.ask(`/api/v1/settings/keys/${data.key_id}`, { method: 'DELETE' })
    // Within 2 s, but for a busy machine.
    const isRefused = async () => (await withCookie('/api/v1/session', Cookie)).status === 401
    await waitUntil(isRefused, 'the session is refused', 10_000)
  })
})

test('403: a page of another site opens none', async () => {
  const { status, headers } = await open({ api_key: query.admin }, { Origin: 'https://evil.example' })
  expect(status).toBe(403)
  expect(headers.get('set-cookie')).toBeNull()
})

describe('400 and 401', () => {
  test.each([
    [{}, 400, 'Missing required field: api_key'],
    [{ api_key: 7 }, 400, 'Invalid field: api_key must be a string'],
    [{ api_key: 'svc_prod_wrong' }, 401, 'Invalid API key'],
    [{ api_key: generateKey('prod') }, 401, 'Invalid API key'],
  ])('%j', async (body, status, error) => {
    expect(await open(body)).toMatchObject({ status, body: { success: false, error } })
  })
})

describe('429', () => {
  test('an address that failed ten times within a minute waits; others don’t', async () => {
    const address = { 'X-Forwarded-For': nextAddress() }
    const wrong = () => open({ api_key: generateKey('prod') }, address)
    const answers = await Promise.all(Array.from({ length: 15 }, wrong))
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toStrictEqual([...Array<number>(10).fill(401), ...Array<number>(5).fill(429)])
    const { status, headers } = await open({ api_key: query.admin }, address)
    expect(status).toBe(429)
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(50)
    expect((await open({ api_key: query.admin })).status).toBe(201)
  })

  test('addresses of one network are one', async () => {
    const from = (host: string) => ({ 'X-Forwarded-For': `2001:db8:0:7${host}` })
    for (let n = 0; n < 10; n++) {
      expect((await open({ api_key: generateKey('prod') }, from(`::${n}`))).status).toBe(401)
    }
    expect((await open({ api_key: query.admin }, from(':ffff::1'))).status).toBe(429)
    expect((await open({ api_key: query.admin }, { 'X-Forwarded-For': '2001:db8:0:8::1' })).status).toBe(201)
  })

  test('a key opens no more sessions than it may make changes', async () => {
    const key = await query.createKey({ scopes: ['stats:read'], rateLimits: { admin_per_minute: 2 } })
    for (const status of [201, 201, 429]) expect((await open({ api_key: key })).status).toBe(status)
  })

  test('successes don’t count', async () => {
    const address = { 'X-Forwarded-For': nextAddress() }
    for (let n = 0; n < 12; n++) expect((await open({ api_key: query.admin }, address)).status).toBe(201)
  })
})
