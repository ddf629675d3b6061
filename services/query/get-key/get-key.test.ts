import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startQuery, type TestQuery } from '../query.test-support.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
})

afterAll(async () => {
  await query.stop()
})

test('200: the record, without key and hash', async () => {
  const { key_id: keyId } = (
    await query.ask('/api/v1/settings/keys', {
      method: 'POST',
      body: { name: 'web shop', expires_at: 4_102_444_800_000 },
    })
  ).body.data as { key_id: string }
  const { status, body } = await query.ask(`/api/v1/settings/keys/${keyId}`)
  expect(status).toBe(200)
  expect(body.data).toStrictEqual({
    key_id: keyId,
    name: 'web shop',
    environment: 'prod',
    scopes: ['events:write', 'stats:read'],
    hint: expect.stringMatching(/^svc_prod_….{4}$/),
    created_at: expect.any(Number),
    last_used_at: null,
    expires_at: 4_102_444_800_000,
    revoked_at: null,
  })
})

test.each(['key_unknown', 'x', '%20', '__proto__', "'", '%F0%9F%98%80', 'a%2Fb', 'x'.repeat(5_000)])(
  '404: %s',
  async (keyId) => {
    const { status, body } = await query.ask(`/api/v1/settings/keys/${keyId}`)
    expect(status).toBe(404)
    expect(body).toStrictEqual({ success: false, error: 'Key not found', timestamp: expect.any(Number) })
  },
)

test('404, not 500: an id with NUL, which Postgres does not take', async () => {
  for (const method of ['GET', 'DELETE']) {
    expect((await query.ask('/api/v1/settings/keys/a%00b', { method })).status).toBe(404)
  }
})
