import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithRedis, testRedis } from '../support/engines/test-engines.ts'
import { allRows } from '../support/test-postgres.ts'
import { dumpRedis } from '../support/test-redis.ts'
import { startTestSluice, type TestSluice } from '../support/test-sluice.ts'

/** R14: keys, session tokens and secrets of webhooks appear only in the response that created them. */
describeWithRedis('secrets', () => {
  let sluice: TestSluice
  const responses: string[] = []
  const secrets: string[] = []

  beforeAll(async () => {
    sluice = await startTestSluice({ redisUrl: testRedis()?.url ?? '' })
  })

  afterAll(async () => {
    await sluice.stop()
  })

  async function send(
    path: string,
    { method = 'GET', headers = {}, body }: RequestParts = {},
  ): Promise<ReceivedResponse> {
    const response = await fetch(`${sluice.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) })
    const text = await response.text()
    responses.push(text, JSON.stringify([...response.headers]))
    return { status: response.status, text }
  }

  const json = { 'Content-Type': 'application/json' }
  const bearer = (key: string) => ({ ...json, Authorization: `Bearer ${key}` })

  /**
   * Creates webhooks with a given and a generated secret, rotates and replaces a secret, and returns all secrets and
   * the secret part of the URL.
   */
  async function useWebhook(): Promise<string[]> {
    const [path, secret] = ['canary-of-a-url', 'canary-of-a-secret']
    const headers = bearer(sluice.admin)
    const webhooks = `${sluice.url}/api/v1/webhooks`
    const post = async (url: string, body: object) => {
      const response = await fetch(url, {
        method: 'POST',
        // The response is stored for repeats.
        headers: { ...headers, 'Idempotency-Key': randomUUID() },
        body: JSON.stringify(body),
      })
      return ((await response.json()) as { data: { webhook_id: string; secret?: string } }).data
    }
    const body = { site_id: 'a', url: `http://127.0.0.1:9/${path}`, events: ['alert'] }
    const { secret: generated = '' } = await post(webhooks, body)
    const { webhook_id: id } = await post(webhooks, { ...body, secret })
    const { secret: rotated = '' } = await post(`${webhooks}/${id}/rotate-secret`, { overlap: '1h' })
    expect([generated, rotated].every((each) => each.length === 32)).toBe(true)
    const hidden = [secret, generated, rotated]
    await send(`/api/v1/webhooks/${id}/test`, { method: 'POST', headers })
    await send(`/api/v1/webhooks/${id}/deliveries`, { headers })
    for (const each of hidden) {
      const wrong = [{ secret: each.repeat(20) }, { secret: [each] }]
      for (const change of wrong) {
        await send(`/api/v1/webhooks/${id}`, { method: 'PUT', headers, body: JSON.stringify(change) })
      }
    }
    await send(`/api/v1/webhooks/${id}`, {
      method: 'PUT',
      headers,
      body: JSON.stringify({ url: 'http://10.0.0.1/' + path }),
    })
    // Administrators read URLs; nobody reads a secret again.
    const read = await fetch(`${webhooks}/${id}`, { headers })
    const text = await read.text()
    expect(text).toContain(path)
    for (const each of hidden) expect(text).not.toContain(each)
    return [path, ...hidden]
  }

  test('appear in no log, error, topic, table, Redis key or metric', async () => {
    const { admin } = sluice
    const made = await fetch(`${sluice.url}/api/v1/settings/keys`, {
      method: 'POST',
      headers: bearer(admin),
      body: JSON.stringify({ name: 'canary', scopes: ['events:write', 'stats:read'] }),
    })
    const { key, key_id: keyId } = ((await made.json()) as { data: { key: string; key_id: string } }).data
    const rotated = await fetch(`${sluice.url}/api/v1/settings/keys/${keyId}/rotate`, {
      method: 'POST',
      headers: bearer(admin),
      body: JSON.stringify({ overlap: '1h' }),
    })
    const { key: nextKey } = ((await rotated.json()) as { data: { key: string } }).data
    let token = ''
    const isOpened = async (): Promise<boolean> => {
      const opened = await fetch(`${sluice.url}/api/v1/session`, {
        method: 'POST',
        headers: json,
        body: JSON.stringify({ api_key: key }),
      })
      token = ((await opened.json()) as { data?: { session_token: string } }).data?.session_token ?? ''
      return opened.status === 201
    }
    // A busy Redis may answer too late once, which refuses a session.
    await waitUntil(isOpened, 'a session is opened')
    const unknown = generateKey('prod')
    secrets.push(admin, key, nextKey, unknown, token)

    for (const secret of secrets) {
      // The secrets are sent where they belong …
      await send('/api/v1/session', { headers: bearer(secret) })
      await send(`/api/v1/session?api_key=${secret}`)
      await send('/api/v1/session', { headers: { Cookie: `session=${secret}` } })
      await send('/collect', { method: 'POST', headers: bearer(secret), body: '{"site_id":"a","event_type":"b"}' })
      // … and where a faulty client may put them.
      await send(`/api/v1/nowhere?api_key=${secret}`)
      await send(`/api/v1/settings/keys/%?api_key=${secret}`)
      await send(`/collect?api_key=${secret}`, { method: 'PATCH' })
      await send(`/collect?api_key=${secret}`, { method: 'POST', headers: json, body: '{' })
      await send(`/api/v1/stats?api_key=${secret}&site_id=a&metric=nothing`)
      await send('/api/v1/session', { headers: { Authorization: secret } })
      await send('/api/v1/session', { headers: { Authorization: `Basic ${secret}` } })
      await send('/api/v1/session', { headers: { ...bearer(`${secret}x`), 'X-Request-Id': `${secret}!` } })
      await send('/api/v1/session', { method: 'POST', headers: json, body: JSON.stringify({ api_key: `${secret} ` }) })
      await send('/api/v1/session', { method: 'POST', headers: json, body: `{"api_key": "${secret}"` })
      await send('/api/v1/session', { method: 'POST', headers: json, body: JSON.stringify({ [secret]: 1 }).repeat(2) })
    }

    // A text in the place of an id may be any secret, but only a key can be distinguished from the name of a site or a
    // field.
    for (const secret of secrets) {
      for (const path of ['exports', 'imports', 'cohorts', 'webhooks', 'alerts', 'settings/keys']) {
        await send(`/api/v1/${path}/${secret}`, { headers: bearer(admin) })
      }
    }
    for (const sentKey of [admin, key, nextKey, unknown]) {
      await send(`/api/v1/sites/${sentKey}`, { headers: bearer(admin) })
      await send(`/api/v1/stats?metric=event_count&site_id=${sentKey}`, { headers: bearer(admin) })
      await send(`/api/v1/stats?metric=event_count&site_id=a&${sentKey}=1`, { headers: bearer(admin) })
      await send('/api/v1/sites', { method: 'POST', headers: bearer(admin), body: JSON.stringify({ [sentKey]: 1 }) })
      const inBatch = { [sentKey]: 1 }
      await send('/collect/batch', { method: 'POST', headers: bearer(admin), body: JSON.stringify(inBatch) })
    }

    secrets.push(...(await useWebhook()))

    const entries = await readdir(sluice.folder, { recursive: true, withFileTypes: true })
    const files = await Promise.all(
      entries
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => readFile(join(parentPath, name), 'latin1')),
    )
    const places: Record<string, string> = {
      log: sluice.service.text(),
      responses: responses.join('\n'),
      topic: files.join('\n'),
      postgres: JSON.stringify(await allRows(sluice.postgres)),
      redis: JSON.stringify(await dumpRedis(testRedis()?.url ?? '')),
      metrics: await (await fetch(`${sluice.service.metricsUrl}/metrics`)).text(),
    }
    // Each place has content that can be searched.
    expect(places.log).toContain('/collect')
    expect(places.topic).toContain('event_type')
    expect(places.postgres).toContain(keyId)
    expect(places.redis).toContain(':session:')
    expect(places.metrics).toContain('sluice_http_requests_total')
    const found = Object.entries(places).flatMap(([place, text]) =>
      secrets.filter((secret) => text.includes(secret)).map((secret) => `${place}: ${secret.slice(0, 12)}…`),
    )
    expect(found).toStrictEqual([])
  })
})

interface RequestParts {
  method?: string
  headers?: Record<string, string>
  body?: string
}

interface ReceivedResponse {
  status: number
  text: string
}
