import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'
import { connectRaw, request } from '../../../tests/support/test-service.ts'

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway({ trustedProxies: ['loopback'] })
})

afterAll(async () => {
  await gateway.stop()
})

/** The path that the clients ask, with the key as they write it into the address. */
const pathOf = (key: string): string => `/v1/projects/${key}/settings`

const settings = (apiKey: string, apiHost: string) => ({ integrations: { 'Segment.io': { apiKey, apiHost } } })

test('the settings of a key name the host of the request, in the body that Segment’s clients read', async () => {
  const { url } = gateway.service
  const { status, headers, body } = await request(`${url}${pathOf(gateway.keys.prod)}`, {
    headers: { Origin: 'https://shop.example' },
  })
  expect(status).toBe(200)
  expect(body).toStrictEqual(settings(gateway.keys.prod, `${new URL(url).host}/v1`))
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('access-control-allow-origin')).toBe('*')
})

test('the settings name the host that a trusted proxy forwards, for any text as the key', async () => {
  const { body } = await request(`${gateway.service.url}${pathOf('any%20%22key%22')}`, {
    headers: { 'X-Forwarded-Host': 'in.example.com:8443' },
  })
  expect(body).toStrictEqual(settings('any "key"', 'in.example.com:8443/v1'))
})

test('the settings are the same for a request with a Content-Type, as the clients for Flutter and Android send it', async () => {
  const { status, body } = await request(`${gateway.service.url}${pathOf('some-key')}`, {
    headers: { 'Content-Type': 'application/json; charset=utf-8', 'X-Forwarded-Host': 'in.example.com' },
  })
  expect(status).toBe(200)
  expect(body).toStrictEqual(settings('some-key', 'in.example.com/v1'))
})

test('there are no settings for a request without a host, because settings without one name Segment’s in Kotlin', async () => {
  const { send, closed } = await connectRaw(gateway.service.port)
  send(`GET ${pathOf('some-key')} HTTP/1.0\r\n\r\n`)
  const [head, body = ''] = (await closed).split('\r\n\r\n')
  expect(head).toMatch(/^HTTP\/1\.1 400 /)
  expect(JSON.parse(body)).toMatchObject({ error: 'Invalid format: the request names no host' })
})

test('a proxy that forwards an empty host does not hide that of the request', async () => {
  const { url } = gateway.service
  const { body } = await request(`${url}${pathOf('some-key')}`, { headers: { 'X-Forwarded-Host': '' } })
  expect(body).toStrictEqual(settings('some-key', `${new URL(url).host}/v1`))
})

test('neither the log nor the metrics hold the key of the path', async () => {
  const { url, lines, text, metrics } = gateway.service
  const key = 'a-key-that-is-in-the-path'
  const wanted = [pathOf(key), `${pathOf(key)}/`, `${pathOf(key)}?api_key=${key}`, `/v1/projects/${key}%zz/settings`]
  const before = lines().length
  for (const path of wanted) await fetch(`${url}${path}`)
  await fetch(`${url}${pathOf(key)}`, { method: 'POST' })
  await waitUntil(() => lines().length >= before + wanted.length + 1, 'the requests are logged')
  expect(lines()).toContainEqual(expect.objectContaining({ route: '/v1/projects/:write_key/settings', status: 200 }))
  expect(text()).not.toContain(key)
  expect(await metrics.metrics()).not.toContain(key)
})
