import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/engines/processes'
import { createTestKey } from '@sluice/postgres/testing'
import { startQuery, type TestQuery } from '../query.test-support.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
})

afterAll(async () => {
  await query.stop()
})

async function created(): Promise<{ key: string; key_id: string }> {
  const { body } = await query.ask('/api/v1/settings/keys', { method: 'POST', body: { name: 'short-lived' } })
  return body.data as { key: string; key_id: string }
}

const revoke = (keyId: string) => query.ask(`/api/v1/settings/keys/${keyId}`, { method: 'DELETE' })

test('200: the key is refused within 2 s, and its record tells when it was revoked', async () => {
  const { key, key_id: keyId } = await created()
  expect((await query.ask('/api/v1/stats', { key })).status).toBe(400)
  const before = Date.now()
  const { status, body } = await revoke(keyId)
  const answered = performance.now()
  expect(status).toBe(200)
  expect(body).toStrictEqual({ success: true, timestamp: expect.any(Number) })
  await waitUntil(async () => (await query.ask('/api/v1/stats', { key })).status === 401, 'the key is refused', 5_000)
  expect(performance.now() - answered).toBeLessThan(2_000)
  const record = (await query.ask(`/api/v1/settings/keys/${keyId}`)).body.data as { revoked_at: number }
  expect(Math.abs(record.revoked_at - before)).toBeLessThan(60_000)
})

test('200 again when it is repeated; the first time stays', async () => {
  const { key_id: keyId } = await created()
  await revoke(keyId)
  const first = (await query.ask(`/api/v1/settings/keys/${keyId}`)).body.data
  expect((await revoke(keyId)).status).toBe(200)
  expect((await query.ask(`/api/v1/settings/keys/${keyId}`)).body.data).toStrictEqual(first)
})

test('404: an unknown key', async () => {
  const { status, body } = await revoke('key_unknown')
  expect(status).toBe(404)
  expect(body.error).toBe('Key not found')
})

test('a key may revoke itself', async () => {
  const key = await query.createKey({ scopes: ['admin'] })
  const { keys } = (await query.ask('/api/v1/settings/keys?limit=1', { key })).body.data as {
    keys: { key_id: string }[]
  }
  const path = `/api/v1/settings/keys/${keys[0]?.key_id ?? ''}`
  expect((await query.ask(path, { method: 'DELETE', key })).status).toBe(200)
  await waitUntil(async () => (await query.ask(path, { key })).status === 401, 'it is refused', 5_000)
})

test('404: a key that is bound to sites can’t revoke a key of others, which goes on working', async () => {
  const key = await query.createKey({ scopes: ['admin'], siteIds: ['own'] })
  for (const siteIds of [null, ['other'], ['own', 'other']]) {
    const { keyId } = await createTestKey(query.keys, { siteIds })
    const { status, body } = await query.ask(`/api/v1/settings/keys/${keyId}`, { method: 'DELETE', key })
    expect(status).toBe(404)
    expect(body.error).toBe('Key not found')
    expect((await query.keys.find(keyId, null))?.revokedAt).toBeNull()
  }
  const { keyId } = await createTestKey(query.keys, { siteIds: ['own'] })
  expect((await query.ask(`/api/v1/settings/keys/${keyId}`, { method: 'DELETE', key })).status).toBe(200)
})
