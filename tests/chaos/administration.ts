// The requests of scenarios to the services besides sending events.
import { answered } from '../support/answered.ts'
import type { Rig } from './rig.ts'

export const askTimeoutMs = 15_000
export const keysPath = '/api/v1/settings/keys'

/** POST with a body, GET without. Rejects when there is no answer in time. */
export async function statusOf(url: string, key: string, body?: string): Promise<number> {
  const response = await fetch(url, {
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    ...(body !== undefined && { method: 'POST', body }),
    signal: AbortSignal.timeout(askTimeoutMs),
  })
  await response.arrayBuffer()
  return response.status
}

/** Creates a key; `grants` are added to the body of the request. */
export async function createSpareKey({ query, key }: Rig, grants: object = {}): Promise<{ id: string; key: string }> {
  const create = () =>
    fetch(`${query.url}${keysPath}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: 'spare', scopes: ['events:write', 'stats:read'], environment: 'prod', ...grants }),
    })
  const response = await answered(create, 'the request for a key')
  const text = await response.text()
  if (response.status !== 201) throw new Error(`a key could not be made: ${text}`)
  const { data } = JSON.parse(text) as { data: { key_id: string; key: string } }
  return { id: data.key_id, key: data.key }
}

export async function revokeKey({ query, key }: Rig, id: string): Promise<void> {
  const revoke = () =>
    fetch(`${query.url}${keysPath}/${id}`, { method: 'DELETE', headers: { Authorization: `Bearer ${key}` } })
  const response = await answered(revoke, 'the request to revoke a key')
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`the key could not be revoked: ${response.status}`)
}
