import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { hashKey, keyEnvironment } from '@sluice/access/api-key'
import { keyCache } from '@sluice/access/key-cache'
import type { KeyResource } from '@sluice/contracts/keys'
import { unavailable } from '@sluice/runtime/errors'
import { supervise, type Supervisor } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { exactClock } from '../../../tests/support/clock.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { startStopwatch } from '../../../tests/support/stopwatch.ts'
import { createTestKey, forgetChanges } from '../../../tests/support/test-postgres.ts'
import { rotateKeyRoute } from './rotate-key.ts'

let query: TestQuery
/** The key cache of another process. */
let other: Supervisor | undefined

beforeAll(async () => {
  query = await startQuery()
})

afterEach(async () => {
  await other?.stop()
  other = undefined
})

afterAll(async () => {
  await query.stop()
})

const path = (keyId: string) => `/api/v1/settings/keys/${keyId}`
const rotate = (keyId: string, body: unknown = {}, key = query.admin) =>
  query.request(`${path(keyId)}/rotate`, { method: 'POST', body, key })
const get = async (keyId: string) => (await query.request(path(keyId))).body.data as KeyResource
const count = async () => (await query.keys.list({ limit: 1, offset: 0 }, null)).total
/** The status is 400 for a valid key that may read stats, and 401 for an invalid one. */
const use = async (key: string) => (await query.request('/api/v1/stats', { key })).status

const day = 86_400_000

type Rotated = KeyResource & { key: string }

describe('POST /api/v1/settings/keys/{key_id}/rotate', () => {
  test('creates a key with the same grants, shown once, and the old one works until the end of the overlap', async () => {
    const old = await createTestKey(query.keys, {
      name: 'shop',
      environment: 'dev',
      scopes: ['stats:read', 'events:write'],
      siteIds: ['a', 'b'],
      rateLimits: { events_per_minute: 5 },
    })
    await query.keys.markUsed(new Map([[old.keyId, 1e12]]))
    const before = await get(old.keyId)
    const from = Date.now()
    const { status, body } = await rotate(old.keyId, { overlap: '7d' })
    const to = Date.now()
    expect(status).toBe(201)
    const data = body.data as Rotated
    expect(data).toStrictEqual({
      ...before,
      key_id: expect.stringMatching(/^key_[\dA-HJKMNP-TV-Z]{26}$/),
      hint: `svc_dev_…${data.key.slice(-4)}`,
      created_at: expect.any(Number),
      last_used_at: null,
      key: expect.stringMatching(/^svc_dev_[\dA-Za-z]{35}$/),
    })
    expect(data.key_id).not.toBe(old.keyId)
    expect(keyEnvironment(data.key)).toBe('dev')

    const after = await get(old.keyId)
    expect(after).toStrictEqual({ ...before, expires_at: expect.any(Number) })
    expect(after.expires_at).toBeGreaterThanOrEqual(from + 7 * day)
    expect(after.expires_at).toBeLessThanOrEqual(to + 7 * day)
    expect(await use(old.key)).toBe(400)
    expect(await use(data.key)).toBe(400)
  })

  test('stores only the SHA-256 of the new key and logs only ids', async () => {
    const old = await createTestKey(query.keys)
    const { key, key_id: keyId } = (await rotate(old.keyId)).body.data as Rotated
    const stored = JSON.stringify(await query.postgres.db.selectFrom('api_keys').selectAll().execute())
    expect(stored).toContain(hashKey(key))
    expect(stored).not.toContain(key)
    expect(query.service.text()).not.toContain(key)
    expect(query.service.lines()).toContainEqual(
      expect.objectContaining({ rotated_key_id: old.keyId, created_key_id: keyId, status: 201 }),
    )
    for (const url of [path(keyId), '/api/v1/settings/keys']) {
      expect(JSON.stringify((await query.request(url)).body)).not.toContain(key)
    }
  })

  test.each<[string, object]>([
    ['left out', {}],
    ['0s', { overlap: '0s' }],
  ])(
    'makes every process refuse the old key within 2 s and accept the new one when overlap is %s',
    async (_what, body) => {
      const old = await createTestKey(query.keys, { scopes: ['stats:read'] })
      const { logger } = capturedLogger()
      const cache = keyCache(query.keys, { logger, clock: exactClock })
      other = supervise([cache], logger)
      await other.start()
      await cache.authenticate(old.key)
      await forgetChanges(query.postgres)
      expect(await use(old.key)).toBe(400)

      const { key, key_id: keyId } = (await rotate(old.keyId, body)).body.data as Rotated
      const elapsedMs = startStopwatch()
      const refused = async () => (await isRefused(() => cache.authenticate(old.key))) && (await use(old.key)) === 401
      await waitUntil(refused, 'the old key is refused')
      expect(elapsedMs()).toBeLessThan(2_000)
      expect(await cache.authenticate(key)).toMatchObject({ keyId })
      expect(await use(key)).toBe(400)
    },
  )

  test('makes the old key invalid at the end of the overlap', async () => {
    const old = await createTestKey(query.keys, { scopes: ['stats:read'] })
    const before = performance.now()
    await rotate(old.keyId, { overlap: '3s' })
    expect(await use(old.key)).toBe(400)
    await waitUntil(async () => (await use(old.key)) === 401, 'the overlap is over')
    expect(performance.now() - before).toBeGreaterThanOrEqual(2_990)
  })

  test('keeps an expiry before the end of the overlap, for the old key and the new one', async () => {
    const expiresAt = Date.now() + day
    const old = await createTestKey(query.keys, { expiresAt })
    const { body } = await rotate(old.keyId, { overlap: '90d' })
    expect(body.data).toMatchObject({ expires_at: expiresAt })
    expect(await get(old.keyId)).toMatchObject({ expires_at: expiresAt })
  })

  test('is allowed with a bound key for a key of its sites', async () => {
    const boundKey = await query.createKey({ scopes: ['admin'], siteIds: ['own', 'also own'] })
    const old = await createTestKey(query.keys, { siteIds: ['own'] })
    const { status, body } = await rotate(old.keyId, {}, boundKey)
    expect(status).toBe(201)
    expect(body.data).toMatchObject({ site_ids: ['own'] })
  })

  test('is allowed with the rotated key itself', async () => {
    const { key, keyId } = await createTestKey(query.keys, { scopes: ['admin'] })
    const { status, body } = await rotate(keyId, { overlap: '1m' }, key)
    expect(status).toBe(201)
    expect((await rotate((body.data as Rotated).key_id, {}, (body.data as Rotated).key)).status).toBe(201)
  })
})

async function isRefused(authenticate: () => unknown): Promise<boolean> {
  try {
    await authenticate()
    return false
  } catch {
    return true
  }
}

describe('an invalid body', () => {
  const form = 'Invalid field: overlap must be a number and a unit, s, m, h or d, e.g. 7d'

  test.each<[unknown, string]>([
    ['', 'Invalid format: body is empty, a JSON object is expected'],
    ['null', 'Invalid format: body must be a JSON object'],
    [{ overlap: 7 }, 'Invalid field: overlap must be a string'],
    [{ overlap: null }, 'Invalid field: overlap must be a string'],
    [{ overlap: '7' }, form],
    [{ overlap: '-1d' }, form],
    [{ overlap: '1w' }, form],
    [{ overlap: '91d' }, 'Invalid field: overlap must be at most 90d'],
    [{ name: 'new' }, 'Invalid field: name is not known'],
  ])('%j is refused with 400 and the reason', async (sent, error) => {
    const { keyId } = await createTestKey(query.keys)
    const before = await count()
    const { status, body } = await rotate(keyId, sent)
    expect(status).toBe(400)
    expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
    expect(await count()).toBe(before)
    expect((await get(keyId)).expires_at).toBeNull()
  })
})

test('a key with scopes that the rotating key lacks is refused with 403', async () => {
  // Only the scope admin reaches the route today, so the rule is tested at the handler.
  const { keyId } = await createTestKey(query.keys, { scopes: ['events:write'] })
  const before = await count()
  const handled = rotateKeyRoute({ keys: query.keys }).handle(
    apiRequest({
      credential: { ...apiRequest().credential, scopes: ['stats:read'] },
      params: { key_id: keyId },
      body: { bytes: Buffer.from('{}'), type: 'application/json' },
    }),
  )
  await expect(handled).rejects.toMatchObject({
    code: 'forbidden',
    message: 'Insufficient scope: requires events:write',
  })
  expect(await count()).toBe(before)
  expect((await get(keyId)).expires_at).toBeNull()
})

describe('a connection that breaks during the rotation', () => {
  const rotateBy = (keys: Parameters<typeof rotateKeyRoute>[0]['keys'], keyId: string) =>
    rotateKeyRoute({ keys }).handle(
      apiRequest({ params: { key_id: keyId }, body: { bytes: Buffer.from('{}'), type: 'application/json' } }),
    )

  test('loses no key that Postgres has stored', async () => {
    const { keyId } = await createTestKey(query.keys, { scopes: ['stats:read'] })
    const rotate: typeof query.keys.rotate = async (...args) => {
      await query.keys.rotate(...args)
      throw unavailable('the connection broke after COMMIT')
    }
    const { data } = await rotateBy({ ...query.keys, rotate }, keyId)
    expect(await use((data as Rotated).key)).toBe(400)
    expect((await get(keyId)).expires_at).not.toBeNull()
  })

  test('is told when Postgres has stored nothing', async () => {
    const { keyId } = await createTestKey(query.keys, { scopes: ['stats:read'] })
    const before = await count()
    const rotate: typeof query.keys.rotate = async (_keyId, _siteIds, replace) => {
      const old = await query.keys.find(keyId, null)
      if (old) replace(old)
      throw unavailable('the connection broke before COMMIT')
    }
    await expect(rotateBy({ ...query.keys, rotate }, keyId)).rejects.toMatchObject({ code: 'unavailable' })
    expect([await count(), (await get(keyId)).expires_at]).toStrictEqual([before, null])
  })
})

test('an unknown key and, for a bound key, one of other sites get the same 404', async () => {
  const boundKey = await query.createKey({ scopes: ['admin'], siteIds: ['own'] })
  const absent = await rotate('key_unknown', {}, boundKey)
  expect(absent.status).toBe(404)
  expect(absent.body).toStrictEqual({ success: false, error: 'Key not found', timestamp: expect.any(Number) })
  for (const siteIds of [null, ['other'], ['own', 'other']]) {
    const { keyId } = await createTestKey(query.keys, { siteIds })
    const { status, body } = await rotate(keyId, {}, boundKey)
    expect(status).toBe(404)
    expect({ ...body, timestamp: 0 }).toStrictEqual({ ...absent.body, timestamp: 0 })
    expect((await get(keyId)).expires_at).toBeNull()
  }
})

test('a revoked or expired key is refused with 409, and no key is created', async () => {
  const revoked = await createTestKey(query.keys)
  await query.keys.revoke(revoked.keyId, null)
  const expired = await createTestKey(query.keys, { expiresAt: Date.now() - 1 })
  const before = await count()
  for (const [{ keyId }, error] of [
    [revoked, 'Key is revoked: make a new one'],
    [expired, 'Key has expired: make a new one'],
  ] as const) {
    const { status, body } = await rotate(keyId, { overlap: '7d' })
    expect(status).toBe(409)
    expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
  }
  expect(await count()).toBe(before)
})

describe('a second rotation of a key', () => {
  test('is refused with 409, because the replacement would expire with the overlap', async () => {
    const old = await createTestKey(query.keys)
    const first = (await rotate(old.keyId, { overlap: '7d' })).body.data as Rotated
    const { status, body } = await rotate(old.keyId, { overlap: '7d' })
    expect(status).toBe(409)
    expect(body.error).toBe(`Key was rotated: rotate its replacement, ${first.key_id}`)
    expect((await rotate(first.key_id)).body.data).toMatchObject({ expires_at: null })
  })
})

describe('a key that expires', () => {
  test('cannot prolong the life of another key or its own', async () => {
    const expiresAt = Date.now() + day
    const maker = await createTestKey(query.keys, { scopes: ['admin'], expiresAt })
    const make = (body: object) =>
      query.request('/api/v1/settings/keys', { method: 'POST', key: maker.key, body: { name: 'made', ...body } })
    const error = 'Invalid field: expires_at must not be later than that of the key that sends the request'
    expect((await make({})).body.data).toMatchObject({ expires_at: expiresAt })
    expect((await make({ expires_at: expiresAt - 1 })).status).toBe(201)
    for (const expires_at of [null, expiresAt + 1]) {
      expect(await make({ expires_at })).toMatchObject({ status: 400, body: { error } })
      const changed = await query.request(path(maker.keyId), { method: 'PUT', key: maker.key, body: { expires_at } })
      expect(changed).toMatchObject({ status: 400, body: { error } })
    }
    const other = await createTestKey(query.keys)
    // The body of a rotation has no field of this name.
    expect(await rotate(other.keyId, {}, maker.key)).toMatchObject({
      status: 403,
      body: { error: 'Key would expire later than the key that asks: rotate it with one that lasts as long' },
    })
    expect(await rotate(maker.keyId, {}, maker.key)).toMatchObject({
      status: 201,
      body: { data: { expires_at: expiresAt } },
    })
  })

  test('cannot give a scope or a site to a key that outlives it, but can take one away', async () => {
    const maker = await createTestKey(query.keys, { scopes: ['admin'], expiresAt: Date.now() + day })
    const other = await createTestKey(query.keys, { scopes: ['stats:read', 'events:write'], siteIds: ['a', 'b'] })
    const change = (body: object) => query.request(path(other.keyId), { method: 'PUT', key: maker.key, body })
    const error = 'Invalid field: expires_at must not be later than that of the key that sends the request'
    for (const body of [{ scopes: ['admin'] }, { site_ids: null }, { site_ids: ['a', 'c'] }]) {
      expect(await change(body)).toMatchObject({ status: 400, body: { error } })
    }
    expect(await change({ scopes: ['stats:read'], site_ids: ['a'], name: 'less' })).toMatchObject({ status: 200 })
  })
})
