// The requests of scenarios to the services besides sending events.
import { waitUntil } from '@sluice/runtime/wait-until'
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
export async function createSpareKey(rig: Rig, grants: object = {}): Promise<{ id: string; key: string }> {
  const { status, text } = await askPatiently(rig, 'POST', keysPath, {
    name: 'spare',
    scopes: ['events:write', 'stats:read'],
    environment: 'prod',
    ...grants,
  })
  if (status !== 201) throw new Error(`a key could not be made: ${text}`)
  const { data } = JSON.parse(text) as { data: { key_id: string; key: string } }
  return { id: data.key_id, key: data.key }
}

export async function revokeKey(rig: Rig, id: string): Promise<void> {
  const { status, text } = await askPatiently(rig, 'DELETE', `${keysPath}/${id}`)
  if (status !== 200) throw new Error(`the key could not be revoked: ${text}`)
}

/** The answer of the query service, which is asked again while it answers 503: on a busy machine, Postgres may take too long. */
async function askPatiently({ query, key }: Rig, method: string, path: string, body?: object) {
  let answer = { status: 503, text: '' }
  await waitUntil(async () => {
    const response = await fetch(query.url + path, {
      method,
      headers: { Authorization: `Bearer ${key}`, ...(body && { 'Content-Type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    answer = { status: response.status, text: await response.text() }
    return answer.status !== 503
  }, `${method} ${path} is answered`)
  return answer
}
