import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { createTestKey } from '../../../tests/support/test-postgres.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
})

afterAll(async () => {
  await query.stop()
})

test('a key is read as its record, without the key and its hash', async () => {
  const { key_id: keyId } = (
    await query.request('/api/v1/settings/keys', {
      method: 'POST',
      body: {
        name: 'web shop',
        site_ids: ['shop'],
        rate_limits: { events_per_minute: 5 },
        expires_at: 4_102_444_800_000,
      },
    })
  ).body.data as { key_id: string }
  const { status, body } = await query.request(`/api/v1/settings/keys/${keyId}`)
  expect(status).toBe(200)
  expect(body.data).toStrictEqual({
    key_id: keyId,
    name: 'web shop',
    environment: 'prod',
    scopes: ['events:write', 'stats:read'],
    site_ids: ['shop'],
    hint: expect.stringMatching(/^svc_prod_….{4}$/),
    created_at: expect.any(Number),
    last_used_at: null,
    expires_at: 4_102_444_800_000,
    revoked_at: null,
    rate_limits: { events_per_minute: 5 },
    allowed_origins: null,
  })
})

test.each(['key_unknown', 'x', '%20', '__proto__', "'", '%F0%9F%98%80', 'a%2Fb', 'x'.repeat(5_000)])(
  'the unknown id %s is 404',
  async (keyId) => {
    const { status, body } = await query.request(`/api/v1/settings/keys/${keyId}`)
    expect(status).toBe(404)
    expect(body).toStrictEqual({ success: false, error: 'Key not found', timestamp: expect.any(Number) })
  },
)

test('an id with NUL, which Postgres refuses, is 404 instead of 500', async () => {
  for (const method of ['GET', 'DELETE']) {
    const { status, body } = await query.request('/api/v1/settings/keys/a%00b', { method })
    expect([status, body.error]).toEqual([404, 'Key not found'])
    expect((await query.request('/api/v1/settings/keys/a%00b', { method, key: 'unknown' })).status).toBe(401)
  }
})

describe('a key that is bound to sites', () => {
  const getWithBoundKey = async (keyId: string) =>
    query.request(`/api/v1/settings/keys/${keyId}`, {
      key: await query.createKey({ scopes: ['admin'], siteIds: ['own', 'also-own'] }),
    })

  test('reads a key of its sites', async () => {
    const { keyId } = await createTestKey(query.keys, { siteIds: ['own'] })
    const { status, body } = await getWithBoundKey(keyId)
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ key_id: keyId, site_ids: ['own'] })
  })

  test('gets the same 404 for keys of other sites as for a missing key', async () => {
    const absent = await getWithBoundKey('key_unknown')
    expect(absent.status).toBe(404)
    for (const siteIds of [null, ['other'], ['own', 'other']]) {
      const { status, body } = await getWithBoundKey((await createTestKey(query.keys, { siteIds })).keyId)
      expect(status).toBe(404)
      expect({ ...body, timestamp: 0 }).toStrictEqual({ ...absent.body, timestamp: 0 })
    }
  })
})
