import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttp, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startDnsServer } from '../../tests/support/dns-server.ts'
import { openOutbound } from './open-outbound.ts'
import type { OutboundOptions } from './outbound.ts'
import { dnsResolver } from './resolve-host.ts'

const never = new AbortController().signal
const allowedNetworks = ['127.0.0.0/8', '::1/128']
const closing: (() => void)[] = []

afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A server that passes each connection to `serve`. `open` counts the connections that are still open. */
async function receiver(serve: (socket: Socket) => void): Promise<{ url: string; port: number; open: () => number }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    // A socket that nobody reads does not notice the other side's end.
    socket.on('data', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    serve(socket)
  })
  await listen(server)
  closing.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/`, port, open: () => sockets.size }
}

async function listen(server: Server): Promise<void> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
}

/** Answers each request with these bytes and leaves the connection open. */
function answers(text: string): (socket: Socket) => void {
  return (socket) => socket.once('data', () => socket.write(text))
}

function post(url: string, options: Partial<OutboundOptions> = {}, signal = never) {
  const outbound = openOutbound({ allowedNetworks, timeoutMs: 5_000, ...options })
  return outbound.post({ url, headers: { 'x-svc-delivery': 'dlv_1' }, body: Buffer.from('{"a":1}') }, signal)
}

describe('an outcome', () => {
  test.each([
    [
      'a success',
      'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone',
      { succeeded: true, status: 200, response: 'done', error: null },
    ],
    [
      'a success without a body',
      'HTTP/1.1 204 No Content\r\n\r\n',
      { succeeded: true, status: 204, response: '', error: null },
    ],
    [
      'a failure',
      'HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\noops',
      { succeeded: false, status: 500, response: 'oops', error: 'the receiver answered with status 500' },
    ],
    ['gone', 'HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n', { succeeded: false, status: 410, response: '' }],
    [
      'a redirect',
      'HTTP/1.1 307 To\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n',
      { succeeded: false, status: 307, error: 'redirects are not followed' },
    ],
    [
      'Retry-After in seconds',
      'HTTP/1.1 429 No\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n',
      { succeeded: false, status: 429, retryAfterMs: 120_000 },
    ],
    [
      'Retry-After as a date',
      'HTTP/1.1 503 No\r\nretry-after: Sun, 22 Nov 2026 12:01:30 GMT\r\ncontent-length: 0\r\n\r\n',
      { status: 503, retryAfterMs: 90_000 },
    ],
    [
      'early hints, then a success',
      `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(3)}HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n`,
      { succeeded: true, status: 200 },
    ],
    [
      'what is not HTTP',
      'SSH-2.0-OpenSSH_9.2\r\n',
      { succeeded: false, status: null, response: null, error: 'the response is not HTTP' },
    ],
    [
      'headers of 100 KB',
      `HTTP/1.1 200 OK\r\nx-much: ${'a'.repeat(100_000)}\r\n\r\n`,
      { succeeded: false, status: null, error: "the response's headers are too large" },
    ],
    [
      'NUL and bytes that are not UTF-8',
      'HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na\0b',
      { succeeded: true, response: 'a\uFFFDb' },
    ],
  ])('%s', async (_name, text, expected) => {
    const { url, open } = await receiver(answers(text))
    expect(await post(url, { now: () => Date.UTC(2026, 10, 22, 12) })).toMatchObject(expected)
    await waitUntil(() => open() === 0, 'the connection is closed')
  })

  test('connection refused', async () => {
    const server = createServer()
    await listen(server)
    const { port } = server.address() as AddressInfo
    server.close()
    expect(await post(`http://127.0.0.1:${port}/`)).toMatchObject({
      succeeded: false,
      status: null,
      error: 'connection refused',
    })
  })

  test('closed before an answer', async () => {
    const { url } = await receiver((socket) => socket.once('data', () => socket.end()))
    expect(await post(url)).toMatchObject({ status: null, error: 'connection closed before the response was complete' })
  })

  test('reset', async () => {
    const { url } = await receiver((socket) => socket.once('data', () => socket.resetAndDestroy()))
    expect(await post(url)).toMatchObject({ status: null, error: 'connection reset by the receiver' })
  })

  test('closed in the middle of the body', async () => {
    const { url } = await receiver((socket) =>
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf')),
    )
    expect(await post(url)).toMatchObject({
      succeeded: false,
      status: 200,
      response: 'half',
      error: 'connection closed before the response was complete',
    })
  })

  test('a name that no server of DNS knows, and one that none answers for', async () => {
    const dns = await startDnsServer((name) => (name === 'unknown.test' ? 'unknown' : 'silent'))
    closing.push(() => dns.close())
    const resolve = dnsResolver([dns.address])
    expect(await post('http://unknown.test/', { resolve })).toMatchObject({ error: 'the host cannot be resolved' })
    expect(await post('http://silent.test/', { resolve, timeoutMs: 300 })).toMatchObject({
      error: 'no response within 0.3 s',
    })
  })

  test.each([
    ['nonsense', 'the URL must be a URL such as https://example.com/hook'],
    ['ftp://127.0.0.1/', 'the URL must begin with https:// or http://'],
    ['http://a:b@127.0.0.1/', 'the URL must not hold a user name or password'],
    ['http://127.0.0.1:25/', 'the URL must not use port 25'],
    ['http://127.0.0.1:0/', 'the URL must not use port 0'],
  ])('%s', async (url, error) => {
    expect(await post(url)).toMatchObject({ succeeded: false, status: null, error })
  })
})

describe('a hostile receiver', () => {
  const timeoutMs = 1_000

  test.each<[string, (socket: Socket) => void, object]>([
    ['accepts and says nothing', () => undefined, { status: null, error: 'no response within 1 s' }],
    [
      'trickles headers',
      (socket) => trickle(socket, 'HTTP/1.1 200 OK\r\nx-slow: '),
      { status: null, error: 'no response within 1 s' },
    ],
    [
      'trickles the body',
      (socket) => trickle(socket, 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n'),
      { status: 200, error: 'the response was not complete within 1 s', response: expect.stringMatching(/^a+$/) },
    ],
    [
      'trickles informational responses',
      (socket) => trickle(socket, '', 'HTTP/1.1 102 Processing\r\n\r\n', 60),
      { status: null, error: 'no response within 1 s' },
    ],
  ])('that %s ends with the time', async (_name, serve, expected) => {
    const { url, open } = await receiver(serve)
    const result = await post(url, { timeoutMs })
    expect(result).toMatchObject({ succeeded: false, ...expected })
    expect(result.latencyMs).toBeGreaterThanOrEqual(timeoutMs - 1)
    expect(result.latencyMs).toBeLessThan(timeoutMs + 5_000)
    await waitUntil(() => open() === 0, 'the connection is closed')
  })

  test('that floods with informational responses is cut off', async () => {
    const { url, open } = await receiver(flood('', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(100)))
    expect(await post(url)).toMatchObject({
      succeeded: false,
      status: null,
      error: 'the receiver sends informational responses without end',
    })
    await waitUntil(() => open() === 0, 'the connection is closed')
  })

  test('that sends 10 GB is read for 4 KiB', async () => {
    let written = 0
    const { url, open } = await receiver((socket) => {
      flood(`HTTP/1.1 200 OK\r\ncontent-length: ${10 ** 10}\r\n\r\n`, 'a'.repeat(65_536))(socket)
      socket.on('close', () => (written = socket.bytesWritten))
    })
    const result = await post(url)
    expect(result).toMatchObject({ succeeded: true, status: 200, response: 'a'.repeat(4_096) })
    await waitUntil(() => open() === 0 && written > 0, 'the connection is closed')
    expect(written).toBeLessThan(50_000_000)
  })

  test('that does not complete the handshake of TLS ends with the time', async () => {
    const { port, open } = await receiver(() => undefined)
    expect(await post(`https://127.0.0.1:${port}/`, { timeoutMs })).toMatchObject({ error: 'no response within 1 s' })
    await waitUntil(() => open() === 0, 'the connection is closed')
  })
})

function trickle(socket: Socket, head: string, piece = 'a', everyMs = 40): void {
  socket.once('data', () => {
    socket.write(head)
    const timer = setInterval(() => socket.write(piece), everyMs)
    socket.on('close', () => clearInterval(timer))
  })
}

/** Writes as fast as the other side reads. */
function flood(head: string, piece: string): (socket: Socket) => void {
  return (socket) => {
    const more = (): void => {
      while (!socket.destroyed && socket.write(piece)) continue
    }
    socket.once('data', () => {
      socket.write(head)
      socket.on('drain', more)
      more()
    })
  }
}

test('an abort of the caller rejects with its reason and ends the connection', async () => {
  const { url, open } = await receiver(() => undefined)
  const abort = new AbortController()
  const reason = new Error('the lease is lost')
  const attempt = post(url, {}, abort.signal)
  await waitUntil(() => open() === 1, 'the connection')
  abort.abort(reason)
  await expect(attempt).rejects.toBe(reason)
  await waitUntil(() => open() === 0, 'the connection is closed')
})

test('close rejects what is under way', async () => {
  const { url, open } = await receiver(() => undefined)
  const outbound = openOutbound({ allowedNetworks })
  const attempt = outbound.post({ url, headers: {}, body: Buffer.from('') }, never)
  await waitUntil(() => open() === 1, 'the connection')
  await Promise.all([expect(attempt).rejects.toThrow('closed'), outbound.close()])
})

test('the request is sent as given, over a connection of its own', async () => {
  const seen: { method: string | undefined; url: string | undefined; headers: IncomingHttpHeaders; text: string }[] = []
  const ports = new Set<number | undefined>()
  const server = createHttp((request, response) => {
    const chunks: Buffer[] = []
    ports.add(request.socket.remotePort)
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      seen.push({
        method: request.method,
        url: request.url,
        headers: request.headers,
        text: Buffer.concat(chunks).toString(),
      })
      response.end('ok')
    })
  })
  await listen(server)
  closing.push(() => server.close())
  const { port } = server.address() as AddressInfo
  for (let n = 0; n < 3; n++) await post(`http://localhost:${port}/hook/a%20b?c=d#e`)
  expect(seen[0]).toMatchObject({
    method: 'POST',
    url: '/hook/a%20b?c=d',
    headers: { host: `localhost:${port}`, 'x-svc-delivery': 'dlv_1', 'content-length': '7', connection: 'close' },
    text: '{"a":1}',
  })
  expect(ports.size).toBe(3)
})

test('the next address is dialled when one refuses', async () => {
  const { port } = await receiver(answers('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  const resolve = () => Promise.resolve(['::1', '127.0.0.9', '127.0.0.1'])
  expect(await post(`http://several.test:${port}/`, { resolve })).toMatchObject({ succeeded: true })
})

const openssl = 'openssl'
const hasOpenssl = spawnSync(openssl, ['version']).status === 0

;(hasOpenssl ? describe : describe.skip)('TLS (needs openssl)', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-outbound-'))
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  const names: (string | undefined)[] = []
  let url = ''
  let server: ReturnType<typeof createHttps>

  /** Writes a new key and a certificate of these names. */
  function certify(names: string, [keyFile, certificateFile]: [string, string]): void {
    const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
    const subject = ['-subj', '/CN=sluice', '-addext', `subjectAltName=${names}`]
    execFileSync(openssl, [...request, ...subject, '-keyout', keyFile, '-out', certificateFile], { stdio: 'ignore' })
  }

  beforeAll(async () => {
    certify('DNS:hook.test,IP:127.0.0.1', [key, certificate])
    const options = { key: readFileSync(key), cert: readFileSync(certificate) }
    server = createHttps(
      {
        ...options,
        SNICallback: (name, done) => {
          names.push(name)
          done(null)
        },
      },
      (request, response) => response.end(request.headers.host),
    )
    await listen(server)
    url = `https://hook.test:${(server.address() as AddressInfo).port}/`
  })

  afterAll(() => {
    server.close()
    rmSync(folder, { recursive: true })
  })

  const resolve = () => Promise.resolve(['127.0.0.1'])

  test('the name goes into SNI, Host and the check of the certificate, whatever address is dialled', async () => {
    const ca = readFileSync(certificate, 'utf8')
    expect(await post(url, { resolve, ca })).toMatchObject({ succeeded: true, response: new URL(url).host })
    expect(names).toEqual(['hook.test'])
    expect(await post(url.replace('hook.test', '127.0.0.1'), { ca })).toMatchObject({ succeeded: true })
    expect(await post(url.replace('hook.test', 'other.test'), { resolve, ca })).toMatchObject({
      succeeded: false,
      status: null,
      error: 'the TLS certificate is not valid (ERR_TLS_CERT_ALTNAME_INVALID)',
    })
  })

  test('a certificate that nobody vouches for is refused', async () => {
    expect(await post(url, { resolve })).toMatchObject({
      succeeded: false,
      error: 'the TLS certificate is not valid (DEPTH_ZERO_SELF_SIGNED_CERT)',
    })
  })

  test('a receiver without TLS', async () => {
    const { port } = await receiver(answers('HTTP/1.1 400 Bad Request\r\n\r\n'))
    expect(await post(`https://127.0.0.1:${port}/`)).toMatchObject({ status: null, error: 'the TLS handshake failed' })
  })

  /** Makes the tunnel that a client of a proxy asks for. */
  function carry({ url: authority }: IncomingMessage, socket: Socket): void {
    const upstream = connect(Number(authority?.split(':')[1]), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      socket.pipe(upstream).pipe(socket)
    })
    for (const each of [socket, upstream]) each.on('error', () => each.destroy())
  }

  test('a proxy gets the name, and carries TLS to the receiver unread', async () => {
    const asked: { authority: string | undefined; authorization: string | undefined }[] = []
    const proxy = createHttp().on('connect', (request, socket: Socket) => {
      asked.push({ authority: request.url, authorization: request.headers['proxy-authorization'] })
      carry(request, socket)
    })
    await listen(proxy)
    closing.push(() => proxy.close())
    const address = `http://me:s%20cret@127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const options = { proxy: address, ca: readFileSync(certificate, 'utf8'), allowedNetworks: [] }
    expect(await post(url, options)).toMatchObject({ succeeded: true, response: new URL(url).host })
    expect(asked).toEqual([
      { authority: new URL(url).host, authorization: `Basic ${Buffer.from('me:s cret').toString('base64')}` },
    ])
    const plain = await receiver(answers('HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n'))
    expect(await post(`http://plain.test:${plain.port}/`, options)).toMatchObject({ succeeded: true, status: 202 })
    expect(await post('http://10.0.0.1/', options)).toMatchObject({ error: expect.stringContaining('not public') })
    expect(asked).toHaveLength(2)
  })

  test('the certificate of a proxy is checked against the host of the proxy, a name or an address', async () => {
    const [proxyKey, proxyCertificate] = [join(folder, 'proxy-key.pem'), join(folder, 'proxy.pem')]
    certify('DNS:localhost,IP:127.0.0.1', [proxyKey, proxyCertificate])
    const asked: (string | false | null)[] = []
    const proxy = createHttps({ key: readFileSync(proxyKey), cert: readFileSync(proxyCertificate) })
    proxy.on('secureConnection', ({ servername }: TLSSocket) => asked.push(servername))
    proxy.on('connect', carry)
    await listen(proxy)
    closing.push(() => proxy.close())
    const { port } = proxy.address() as AddressInfo
    const ca = [certificate, proxyCertificate].map((each) => readFileSync(each, 'utf8')).join('')
    for (const host of ['localhost', '127.0.0.1']) {
      expect(await post(url, { proxy: `https://${host}:${port}`, ca })).toMatchObject({ succeeded: true, status: 200 })
    }
    expect(asked).toEqual(['localhost', false])
    // This certificate is that of the receiver, which must not be taken for the proxy's.
    const receiverAsProxy = url.replace('hook.test', 'localhost')
    expect(await post(url, { proxy: receiverAsProxy, ca })).toMatchObject({ error: 'the proxy cannot be reached' })
  })
})

test('a proxy that refuses, is unavailable or hangs', async () => {
  const refusing = await receiver(answers('HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n'))
  expect(await post('http://a.test/', { proxy: refusing.url })).toMatchObject({
    error: 'the proxy refused the connection with status 407',
  })
  const hanging = await receiver(() => undefined)
  expect(await post('http://a.test/', { proxy: hanging.url, timeoutMs: 300 })).toMatchObject({
    error: 'no response within 0.3 s',
  })
  await waitUntil(() => hanging.open() === 0, 'the connection is closed')
  expect(await post('http://a.test/', { proxy: 'http://127.0.0.1:1' })).toMatchObject({
    error: 'the proxy cannot be reached',
  })
})
