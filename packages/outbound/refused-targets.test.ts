import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { type Answer, type DnsServer, startDnsServer } from '../../tests/support/dns-server.ts'
import { openOutbound } from './open-outbound.ts'
import { dnsResolver } from './resolve-host.ts'
import { checkTarget } from './target-url.ts'

/** 127.0.0.2 plays the public network; every other address of this machine must see no connection. */
const allowedNetworks = ['127.0.0.2/32']
const never = new AbortController().signal
const body = Buffer.from('{}')
const servers: Server[] = []
const connections = { allowed: 0, refused: 0 }
let port = 0
let answer: Answer
let dns: DnsServer

async function listen(host: string, wanted: number): Promise<number> {
  const server = createServer((request, response) => {
    request.resume()
    if (request.url === '/redirect') response.writeHead(302, { location: `http://127.0.0.1:${port}/` }).end()
    else response.end('ok')
  })
  server.on('connection', ({ localAddress }) => {
    connections[localAddress === '127.0.0.2' ? 'allowed' : 'refused']++
  })
  server.listen({ host, port: wanted, ipv6Only: true })
  await once(server, 'listening')
  servers.push(server)
  return (server.address() as AddressInfo).port
}

beforeAll(async () => {
  // All addresses of IPv4, 127.0.0.2 among them, and all of IPv6.
  port = await listen('0.0.0.0', 0)
  await listen('::', port)
  dns = await startDnsServer((name, type) => answer(name, type))
})

afterAll(() => {
  dns.close()
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
})

beforeEach(() => {
  connections.allowed = 0
  connections.refused = 0
  answer = () => 'unknown'
})

function options() {
  return { allowedNetworks, resolve: dnsResolver([dns.address]) }
}

function post(url: string) {
  return openOutbound(options()).post({ url, headers: {}, body }, never)
}

describe('an address in the URL is judged, in every form', () => {
  test.each([
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0x7F.0x0.0x0.0x1',
    '0177.0.0.1',
    '017700000001',
    '0177.1',
    '127.0.0.1.',
    '127.0.0.3',
    '127。0。0。1',
    '①②⑦.⓪.⓪.①',
    '%31%32%37.0.0.1',
    '0',
    '0.0.0.0',
    '0x0',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::7f00:1]',
    '[::127.0.0.1]',
    '[::127.0.0.2]',
    '[64:ff9b::127.0.0.1]',
    '[2002:7f00:1::]',
    '[::ffff:0:7f00:1]',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'a.localhost',
  ])('%s', async (host) => {
    const url = `http://${host}:${port}/`
    expect(await post(url)).toMatchObject({
      succeeded: false,
      status: null,
      error: expect.stringMatching(/not (?:allowed|public)/),
    })
    await expect(checkTarget(url, 'url', options())).rejects.toMatchObject({ code: 'invalid_field', field: 'url' })
    expect(connections).toEqual({ allowed: 0, refused: 0 })
  })

  test.each(['127.0.0.2', '127.2', '0x7f000002', '[::ffff:127.0.0.2]'])('%s is allowed', async (host) => {
    await checkTarget(`http://${host}:${port}/`, 'url', options())
    expect(await post(`http://${host}:${port}/`)).toMatchObject({ succeeded: true, status: 200 })
    expect(connections).toEqual({ allowed: 1, refused: 0 })
  })
})

describe('a name is judged by what it resolves to, at each connection', () => {
  test('a name that was public when it was saved and is private now is not connected to', async () => {
    let isSaved = false
    answer = () => (isSaved ? ['127.0.0.1', '::1'] : ['127.0.0.2'])
    const url = `http://rebinding.test:${port}/`
    await checkTarget(url, 'url', options())
    expect(await post(url)).toMatchObject({ succeeded: true })
    isSaved = true
    expect(await post(url)).toMatchObject({ succeeded: false, error: "the host's address is not allowed" })
    expect(connections).toEqual({ allowed: 1, refused: 0 })
  })

  test('a name that flips with every answer is connected to at its public address alone', async () => {
    let questions = 0
    answer = () => (questions++ % 2 === 0 ? ['127.0.0.2'] : ['127.0.0.1', '::1'])
    const results = await Promise.all(Array.from({ length: 60 }, () => post(`http://flipping.test:${port}/`)))
    const succeeded = results.filter((each) => each.succeeded).length
    expect(connections).toEqual({ allowed: succeeded, refused: 0 })
    expect(succeeded).toBeGreaterThan(0)
  })

  test('of public and private addresses only the public ones are dialled', async () => {
    answer = () => ['127.0.0.1', '10.0.0.1', '::1', '127.0.0.2', '::ffff:127.0.0.1', '::7f00:1']
    const url = `http://both.test:${port}/`
    expect(await post(url)).toMatchObject({ succeeded: true })
    expect(connections).toEqual({ allowed: 1, refused: 0 })
    await expect(checkTarget(url, 'hook', options())).rejects.toMatchObject({
      message:
        'Invalid field: hook names a host whose address is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS',
    })
  })

  test.each(['127.0.0.1', '::1', '::ffff:127.0.0.1', '::7f00:1', '64:ff9b::7f00:1', '0.0.0.0', '169.254.169.254'])(
    'a name with the address %s is refused',
    async (address) => {
      answer = () => [address]
      const url = `http://private.test:${port}/`
      expect(await post(url)).toMatchObject({ succeeded: false, error: "the host's address is not allowed" })
      await expect(checkTarget(url, 'url', options())).rejects.toMatchObject({ field: 'url' })
      expect(connections).toEqual({ allowed: 0, refused: 0 })
    },
  )
})

test('a redirect is not followed', async () => {
  expect(await post(`http://127.0.0.2:${port}/redirect`)).toMatchObject({
    succeeded: false,
    status: 302,
    error: 'redirects are not followed',
  })
  expect(connections).toEqual({ allowed: 1, refused: 0 })
})

test('a proxy of the environment is not used', async () => {
  const proxy = `http://127.0.0.1:${port}`
  const script = `
    import { openOutbound } from ${JSON.stringify(new URL('open-outbound.ts', import.meta.url).href)}
    const outbound = openOutbound({ allowedNetworks: ['127.0.0.2/32'] })
    const request = { url: 'http://127.0.0.2:${port}/', headers: {}, body: Buffer.from('{}') }
    console.log((await outbound.post(request, new AbortController().signal)).status)`
  const env = { HTTP_PROXY: proxy, http_proxy: proxy, ALL_PROXY: proxy, NODE_USE_ENV_PROXY: '1' }
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env })
  expect(stdout.trim()).toBe('200')
  expect(connections).toEqual({ allowed: 1, refused: 0 })
})
