import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { generateKey, hashKey } from '@sluice/access/api-key'
import { hashToken } from '@sluice/http/authenticate'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { createTestKey } from '../../../tests/support/test-postgres.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery({ trustedProxies: ['loopback'] })
})

afterAll(async () => {
  await query.stop()
})

const day = 86_400_000
const wrongCode =
  'This sign-in code is not valid: each works once, within 10 minutes. Sign in with an API key, or start Sluice again for a new link.'
let addresses = 0
/** Each test uses an address of its own, because failures are counted by address. */
const nextAddress = () => `203.0.113.${addresses++}`

const open = (body: unknown, headers: Record<string, string> = {}) =>
  query.request('/api/v1/session', {
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

/**
 * Opens connections that begin a sign-in and do not send its body, for which Sluice waits. Returns a function that
 * closes them.
 */
async function beginToSignIn(count: number): Promise<() => void> {
  const { port } = new URL(query.service.url)
  const sockets: Socket[] = []
  // One after the other: a kernel may reset connections that arrive faster than the service accepts them.
  for (let i = 0; i < count; i++) {
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => undefined)
    const headers = ['Host: a', 'Content-Type: application/json', 'Content-Length: 100', 'Expect: 100-continue']
    socket.write(['POST /api/v1/session HTTP/1.1', ...headers, '\r\n'].join('\r\n'))
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toContain('100 Continue')
    sockets.push(socket)
  }
  return () => {
    for (const socket of sockets) socket.destroy()
  }
}

const withCookie = (path: string, Cookie: string, method = 'GET') =>
  query.request(path, { method, key: '', headers: { Cookie } })

test('clients that send no body keep nobody from signing in', async () => {
  const key = await query.createKey({ scopes: ['stats:read'] })
  const close = await beginToSignIn(600)
  try {
    expect((await open({ api_key: key })).status).toBe(201)
  } finally {
    close()
  }
})

describe('POST /api/v1/session', () => {
  test('opens a session with the rights of the key', async () => {
    const key = await query.createKey({ scopes: ['stats:read'] })
    const before = Date.now()
    const { status, headers, body } = await open({ api_key: key })
    expect(status).toBe(201)
    const data = body.data as Opened
    expect(Object.keys(data)).toStrictEqual([
      'session_token',
      'expires_at',
      'key_id',
      'scopes',
      'name',
      'environment',
      'site_ids',
      'collect_url',
    ])
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

  test('sets a Secure cookie behind HTTPS', async () => {
    const key = await query.createKey({ scopes: ['stats:read'] })
    const { headers } = await open({ api_key: key }, { 'X-Forwarded-Proto': 'https' })
    expect(headers.get('set-cookie')).toContain('; Secure')
    expect(headers.get('strict-transport-security')).toBe('max-age=31536000')
  })

  test('logs neither the token nor the key', async () => {
    const { data } = await opened(query.admin)
    await withCookie('/api/v1/session', `session=${data.session_token}`)
    expect(query.service.text()).not.toContain(data.session_token)
    expect(query.service.text()).not.toContain(query.admin)
  })
})

describe('a session', () => {
  test('ends no later than its key', async () => {
    const expiresAt = Date.now() + 3_600_000
    const { key } = await createTestKey(query.keys, { scopes: ['stats:read'], expiresAt })
    expect((await opened(key)).data.expires_at).toBe(expiresAt)
  })

  test('is described by GET, as a key is', async () => {
    const { Cookie, data } = await opened(query.admin)
    const mine = await withCookie('/api/v1/session', Cookie)
    expect(mine.body.data).toMatchObject({ key_id: data.key_id, scopes: ['admin'] })
    const { expires_at: expiresAt } = mine.body.data as Opened
    expect(Math.abs(expiresAt - Date.now() - day)).toBeLessThan(10_000)
    expect((await query.request('/api/v1/session')).body.data).toStrictEqual({
      key_id: data.key_id,
      scopes: ['admin'],
      expires_at: null,
      name: 'admin',
      environment: 'prod',
      site_ids: null,
      collect_url: query.service.url,
    })
  })

  test('costs no queries when it is described, and is described when none are left', async () => {
    const { key } = await createTestKey(query.keys, { scopes: ['stats:read'], rateLimits: { queries_per_minute: 5 } })
    const { Cookie } = await opened(key)
    const describe20 = async () => {
      const answers = new Set<string>()
      for (let n = 0; n < 20; n++) {
        const { status, headers } = await withCookie('/api/v1/session', Cookie)
        answers.add(`${status}, ${headers.get('x-ratelimit-remaining')} of ${headers.get('x-ratelimit-limit')}`)
      }
      return [...answers]
    }
    expect(await describe20()).toStrictEqual(['200, 5 of 5'])
    for (let n = 0; n < 5; n++) expect((await withCookie('/api/v1/sites', Cookie)).status).toBe(200)
    expect((await withCookie('/api/v1/sites', Cookie)).status).toBe(429)
    expect(await describe20()).toStrictEqual(['200, 0 of 5'])
  })

  test('ends with DELETE, which removes the cookie', async () => {
    const { Cookie } = await opened(query.admin)
    const { status, headers } = await withCookie('/api/v1/session', Cookie, 'DELETE')
    expect(status).toBe(200)
    expect(headers.get('set-cookie')).toContain('session=; Max-Age=0')
    expect((await withCookie('/api/v1/session', Cookie)).status).toBe(401)
  })

  test('is found behind the cookie of another application that has its form', async () => {
    const { Cookie } = await opened(query.admin)
    expect((await withCookie('/api/v1/session', `session=${'x'.repeat(43)}; ${Cookie}`)).status).toBe(200)
  })

  test('ends with its key', async () => {
    const key = await query.createKey({ scopes: ['stats:read'] })
    const { Cookie, data } = await opened(key)
    expect((await withCookie('/api/v1/session', Cookie)).status).toBe(200)
    await query.request(`/api/v1/settings/keys/${data.key_id}`, { method: 'DELETE' })
    // It takes at most 2 s, unless the machine is busy.
    const isRefused = async () => (await withCookie('/api/v1/session', Cookie)).status === 401
    await waitUntil(isRefused, 'the session is refused')
  })
})

test('a session names SLUICE_COLLECT_URL where it is set', async () => {
  const apart = await startQuery({ collectUrl: 'https://collect.example' })
  try {
    expect((await apart.request('/api/v1/session')).body.data).toMatchObject({ collect_url: 'https://collect.example' })
  } finally {
    await apart.stop()
  }
})

test('a request from a page of another site is refused with 403', async () => {
  const { status, headers } = await open({ api_key: query.admin }, { Origin: 'https://evil.example' })
  expect(status).toBe(403)
  expect(headers.get('set-cookie')).toBeNull()
})

describe('an invalid body or key', () => {
  test.each([
    [{}, 400, 'Missing required field: api_key'],
    [{ api_key: 7 }, 400, 'Invalid field: api_key must be a string'],
    [{ api_key: 'svc_prod_wrong' }, 401, 'Invalid API key'],
    [{ api_key: generateKey('prod') }, 401, 'Invalid API key'],
    [{ api_key: '', code: null }, 400, 'Missing required field: api_key'],
    [{ code: 7 }, 400, 'Invalid field: code must be a string'],
    [{ api_key: 'a', code: 'b' }, 400, 'Invalid field: code must not be given together with api_key'],
    [{ code: 'guessed' }, 401, wrongCode],
  ])('%j is refused with %i', async (body, status, error) => {
    expect(await open(body)).toMatchObject({ status, body: { success: false, error } })
  })
})

describe('a sign-in code', () => {
  let codes = 0
  const newCode = async (key: string) => {
    const code = `code-${codes++}`
    await query.signInCodes.create(hashToken(code), { keyHash: hashKey(key) })
    return code
  }

  test('opens a session of its key, once', async () => {
    const key = await query.createKey({ scopes: ['stats:read'], name: 'reader' })
    const code = await newCode(key)
    const { status, body } = await open({ code })
    expect(status).toBe(201)
    const data = body.data as Opened
    expect(data).toMatchObject({ name: 'reader', scopes: ['stats:read'] })
    const mine = await withCookie('/api/v1/session', `session=${data.session_token}`)
    expect(mine.body.data).toMatchObject({ key_id: data.key_id })
    expect(await open({ code })).toMatchObject({ status: 401, body: { error: wrongCode } })
    expect(query.service.text()).not.toContain(`"${code}"`)
  })

  test('opens no session of a key that was revoked meanwhile', async () => {
    const { key, keyId } = await createTestKey(query.keys)
    const code = await newCode(key)
    await query.keys.revoke(keyId, null)
    expect(await open({ code })).toMatchObject({ status: 401, body: { error: wrongCode } })
  })

  test('is not used up by a request with a key too, nor by one from another site', async () => {
    const code = await newCode(query.admin)
    expect((await open({ code, api_key: query.admin })).status).toBe(400)
    expect((await open({ code }, { Origin: 'https://evil.example' })).status).toBe(403)
    expect((await open({ code })).status).toBe(201)
  })
})

describe('the limits on opening sessions', () => {
  test('an address with ten failures within a minute gets 429, other addresses do not', async () => {
    const address = { 'X-Forwarded-For': nextAddress() }
    const wrong = () => open({ api_key: generateKey('prod') }, address)
    const responses = await Promise.all(Array.from({ length: 15 }, wrong))
    const statuses = responses.map(({ status }) => status).sort()
    expect(statuses).toStrictEqual([...Array<number>(10).fill(401), ...Array<number>(5).fill(429)])
    const { status, headers } = await open({ api_key: query.admin }, address)
    expect(status).toBe(429)
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(50)
    expect((await open({ api_key: query.admin })).status).toBe(201)
  })

  test('guessed codes are failures as wrong keys are, and used up by none that is refused', async () => {
    const address = { 'X-Forwarded-For': nextAddress() }
    for (let n = 0; n < 5; n++) {
      expect((await open({ code: `guess-${n}` }, address)).status).toBe(401)
      expect((await open({ api_key: generateKey('prod') }, address)).status).toBe(401)
    }
    await query.signInCodes.create(hashToken('right'), { keyHash: hashKey(query.admin) })
    expect((await open({ code: 'right' }, address)).status).toBe(429)
    expect((await open({ code: 'right' })).status).toBe(201)
  })

  test('the addresses of one network are counted together', async () => {
    const from = (host: string) => ({ 'X-Forwarded-For': `2001:db8:0:7${host}` })
    for (let n = 0; n < 10; n++) {
      expect((await open({ api_key: generateKey('prod') }, from(`::${n}`))).status).toBe(401)
    }
    expect((await open({ api_key: query.admin }, from(':ffff::1'))).status).toBe(429)
    expect((await open({ api_key: query.admin }, { 'X-Forwarded-For': '2001:db8:0:8::1' })).status).toBe(201)
  })

  test('a key may open as many sessions as it may make changes', async () => {
    const key = await query.createKey({ scopes: ['stats:read'], rateLimits: { admin_per_minute: 2 } })
    for (const status of [201, 201, 429]) expect((await open({ api_key: key })).status).toBe(status)
  })

  test('successes do not count as failures', async () => {
    const address = { 'X-Forwarded-For': nextAddress() }
    for (let n = 0; n < 12; n++) expect((await open({ api_key: query.admin }, address)).status).toBe(201)
  })
})
