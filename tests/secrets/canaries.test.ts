import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/contracts/api-key'
import { describeWithRedis, testRedis } from '@sluice/engines/testing'
import { allRows } from '@sluice/postgres/testing'
import { dumpRedis } from '@sluice/redis/testing'
import { startAll, type TestSluice } from '../harness/all-routes.ts'

/** R14: keys and session tokens stand nowhere but in the answer that made them. */
describeWithRedis('secrets', () => {
  let sluice: TestSluice
  const answers: string[] = []
  const secrets: string[] = []

  beforeAll(async () => {
    sluice = await startAll({ redisUrl: testRedis()?.url ?? '' })
  }, 60_000)

  afterAll(async () => {
    await sluice.stop()
  })

  async function ask(path: string, { method = 'GET', headers = {}, body }: Asked = {}): Promise<Answer> {
    const response = await fetch(`${sluice.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) })
    const text = await response.text()
    answers.push(text, JSON.stringify([...response.headers]))
    return { status: response.status, text }
  }

  const json = { 'Content-Type': 'application/json' }
  const bearer = (key: string) => ({ ...json, Authorization: `Bearer ${key}` })

  test('are in no log, no error, no topic, no table, no dump and no metric', async () => {
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
    const opened = await fetch(`${sluice.url}/api/v1/session`, {
      method: 'POST',
      headers: json,
      body: JSON.stringify({ api_key: key }),
    })
    const { session_token: token } = ((await opened.json()) as { data: { session_token: string } }).data
    const unknown = generateKey('prod')
    secrets.push(admin, key, nextKey, unknown, token)

    for (const secret of secrets) {
      // Where they belong …
      await ask('/api/v1/session', { headers: bearer(secret) })
      await ask(`/api/v1/session?api_key=${secret}`)
      await ask('/api/v1/session', { headers: { Cookie: `session=${secret}` } })
      await ask('/collect', { method: 'POST', headers: bearer(secret), body: '{"site_id":"a","event_type":"b"}' })
      // … and with everything that can go wrong around them.
      await ask(`/api/v1/nowhere?api_key=${secret}`)
      await ask(`/api/v1/settings/keys/%?api_key=${secret}`)
      await ask(`/collect?api_key=${secret}`, { method: 'PATCH' })
      await ask(`/collect?api_key=${secret}`, { method: 'POST', headers: json, body: '{' })
      await ask(`/api/v1/stats?api_key=${secret}&site_id=a&metric=nothing`)
      await ask('/api/v1/session', { headers: { Authorization: secret } })
      await ask('/api/v1/session', { headers: { Authorization: `Basic ${secret}` } })
      await ask('/api/v1/session', { headers: { ...bearer(`${secret}x`), 'X-Request-Id': `${secret}!` } })
      await ask('/api/v1/session', { method: 'POST', headers: json, body: JSON.stringify({ api_key: `${secret} ` }) })
      await ask('/api/v1/session', { method: 'POST', headers: json, body: `{"api_key": "${secret}"` })
      await ask('/api/v1/session', { method: 'POST', headers: json, body: JSON.stringify({ [secret]: 1 }).repeat(2) })
    }

    const files = await Promise.all(
      (await readdir(sluice.folder)).map((name) => readFile(join(sluice.folder, name), 'latin1')),
    )
    const places: Record<string, string> = {
      log: sluice.service.text(),
      answers: answers.join('\n'),
      topic: files.join('\n'),
      postgres: JSON.stringify(await allRows(sluice.postgres)),
      redis: JSON.stringify(await dumpRedis(testRedis()?.url ?? '')),
      metrics: await (await fetch(`${sluice.service.metricsUrl}/metrics`)).text(),
    }
    // They are looked for in what is really there.
    expect(places.log).toContain('/collect')
    expect(places.topic).toContain('event_type')
    expect(places.postgres).toContain(keyId)
    expect(places.redis).toContain(':session:')
    expect(places.metrics).toContain('sluice_http_requests_total')
    const found = Object.entries(places).flatMap(([place, text]) =>
      secrets.filter((secret) => text.includes(secret)).map((secret) => `${place}: ${secret.slice(0, 12)}…`),
    )
    expect(found).toStrictEqual([])
  }, 60_000)
})

interface Asked {
  method?: string
  headers?: Record<string, string>
  body?: string
}

interface Answer {
  status: number
  text: string
}
