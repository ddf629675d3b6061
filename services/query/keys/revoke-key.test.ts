import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Scope } from '@sluice/contracts/scopes'
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

async function created(more: { scopes?: Scope[] } = {}): Promise<{ key: string; key_id: string }> {
  const { body } = await query.request('/api/v1/settings/keys', {
    method: 'POST',
    body: { name: 'short-lived', ...more },
  })
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

/** Begins to make an admin key; the returned function sends the rest of the body and resolves to the status. */
function beginToCreateKey(key: string): () => Promise<number> {
  const body = JSON.stringify({ name: 'survivor', scopes: ['admin'] })
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    'Content-Length': body.length,
  }
  const call = request(`${query.service.url}/api/v1/settings/keys`, { method: 'POST', headers })
  const answered = once(call, 'response') as Promise<[IncomingMessage]>
  call.write(body.slice(0, -1))
  return async () => {
    call.end(body.slice(-1))
    const [response] = await answered
    response.resume()
    return response.statusCode ?? 0
  }
}

test('a key that is revoked while a request sends its body does nothing more', async () => {
  const { key, key_id: keyId } = await created({ scopes: ['admin'] })
  const elapsedMs = startStopwatch()
  const finishFirst = beginToCreateKey(key)
  const finishSecond = beginToCreateKey(key)
  await waitUntil(() => elapsedMs() > 1_100, 'the body takes longer than a second')
  expect(await finishFirst()).toBe(201)
  await revoke(keyId)
  await waitUntil(async () => (await query.request('/api/v1/settings/keys', { key })).status === 401, 'it is refused')
  expect(await finishSecond()).toBe(401)
})

test('a key that loses a scope while a request sends its body does not act by it', async () => {
  const { key, key_id: keyId } = await created({ scopes: ['admin'] })
  const elapsedMs = startStopwatch()
  const finish = beginToCreateKey(key)
  await waitUntil(() => elapsedMs() > 1_100, 'the body takes longer than a second')
  await query.request(`/api/v1/settings/keys/${keyId}`, { method: 'PUT', body: { scopes: ['stats:read'] } })
  await waitUntil(async () => (await query.request('/api/v1/settings/keys', { key })).status === 403, 'it is demoted')
  expect(await finish()).toBe(403)
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
