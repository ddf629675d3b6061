import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { startStopwatch } from '../../../tests/support/stopwatch.ts'
import { createTestKey } from '../../../tests/support/test-postgres.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
})

afterAll(async () => {
  await query.stop()
})

async function created(): Promise<{ key: string; key_id: string }> {
  const { body } = await query.request('/api/v1/settings/keys', { method: 'POST', body: { name: 'short-lived' } })
  return body.data as { key: string; key_id: string }
}

const revoke = (keyId: string) => query.request(`/api/v1/settings/keys/${keyId}`, { method: 'DELETE' })

test('a revoked key is refused within 2 s, and its record has the time of the revocation', async () => {
  const { key, key_id: keyId } = await created()
  expect((await query.request('/api/v1/stats', { key })).status).toBe(400)
  const before = Date.now()
  const { status, body } = await revoke(keyId)
  const elapsedMs = startStopwatch()
  expect(status).toBe(200)
  expect(body).toStrictEqual({ success: true, timestamp: expect.any(Number) })
  await waitUntil(async () => (await query.request('/api/v1/stats', { key })).status === 401, 'the key is refused')
  expect(elapsedMs()).toBeLessThan(2_000)
  const record = (await query.request(`/api/v1/settings/keys/${keyId}`)).body.data as { revoked_at: number }
  expect(Math.abs(record.revoked_at - before)).toBeLessThan(60_000)
})

test('a repeated revocation succeeds and keeps the first time', async () => {
  const { key_id: keyId } = await created()
  await revoke(keyId)
  const first = (await query.request(`/api/v1/settings/keys/${keyId}`)).body.data
  expect((await revoke(keyId)).status).toBe(200)
  expect((await query.request(`/api/v1/settings/keys/${keyId}`)).body.data).toStrictEqual(first)
})

test('an unknown key is 404', async () => {
  const { status, body } = await revoke('key_unknown')
  expect(status).toBe(404)
  expect(body.error).toBe('Key not found')
})

test('a key may revoke itself', async () => {
  const key = await query.createKey({ scopes: ['admin'] })
  const { keys } = (await query.request('/api/v1/settings/keys?limit=1', { key })).body.data as {
    keys: { key_id: string }[]
  }
  const path = `/api/v1/settings/keys/${keys[0]?.key_id ?? ''}`
  expect((await query.request(path, { method: 'DELETE', key })).status).toBe(200)
  await waitUntil(async () => (await query.request(path, { key })).status === 401, 'it is refused')
})

test('a key that is bound to sites gets 404 for a key of other sites, which continues to work', async () => {
  const key = await query.createKey({ scopes: ['admin'], siteIds: ['own'] })
  for (const siteIds of [null, ['other'], ['own', 'other']]) {
    const { keyId } = await createTestKey(query.keys, { siteIds })
    const { status, body } = await query.request(`/api/v1/settings/keys/${keyId}`, { method: 'DELETE', key })
    expect(status).toBe(404)
    expect(body.error).toBe('Key not found')
    expect((await query.keys.find(keyId, null))?.revokedAt).toBeNull()
  }
  const { keyId } = await createTestKey(query.keys, { siteIds: ['own'] })
  expect((await query.request(`/api/v1/settings/keys/${keyId}`, { method: 'DELETE', key })).status).toBe(200)
})
