import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/contracts/api-key'
import { createHash } from 'node:crypto'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import type { Route } from './route.ts'
import { connectRaw, keysInMemory, type RawConnection, request, startTestService, type TestService } from './testing.ts'

const mebibyte = 1024 * 1024
const key = generateKey('prod')

/** Answers with what it got of a body: its length and its hash. */
function digestRoute(path: string, maxBytes: number): Route {
  return {
    method: 'POST',
    path,
    scope: 'events:write',
    limit: 'events',
    body: { types: ['application/json'], maxBytes },
    handle: ({ body: { bytes } }) => Promise.resolve({ status: 200, data: digest(bytes) }),
  }
}

function digest(bytes: Buffer): { length: number; hash: string } {
  return { length: bytes.length, hash: createHash('sha256').update(bytes).digest('hex') }
}

let service: TestService

beforeAll(async () => {
  service = await startTestService(
    { routes: [digestRoute('/small', 1_000), digestRoute('/large', 10 * mebibyte)] },
    keysInMemory({ [key]: { scopes: ['events:write'] } }),
  )
})

afterAll(async () => {
  await service.stop()
})

type Body = NonNullable<RequestInit['body']>

function post(path: string, body: Body, headers: Record<string, string> = {}) {
  return request(`${service.url}${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...headers },
    body,
    // Not in the types yet, and required for streams.
    ...({ duplex: 'half' } as object),
  })
}

const gzipped = { 'Content-Encoding': 'gzip' }

/** A body of unknown length, sent in chunks. */
function stream(length: number): ReadableStream {
  let left = length
  return new ReadableStream({
    pull: (controller) => {
      if (left === 0) {
        controller.close()
        return
      }
      const size = Math.min(left, 65_536)
      left -= size
      controller.enqueue(new Uint8Array(size))
    },
  })
}

async function expectRefused(answer: ReturnType<typeof post>, status: number, error: string): Promise<void> {
  const { status: answered, body } = await answer
  expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
  expect(answered).toBe(status)
}

async function expectServing(): Promise<void> {
  expect((await post('/small', '{}')).status).toBe(200)
}

describe('a body', () => {
  test.each([0, 1, 999, 1_000])('of %i bytes arrives unchanged', async (length) => {
    const bytes = Buffer.alloc(length, 'ü')
    expect((await post('/small', bytes)).body.data).toStrictEqual(digest(bytes))
    expect((await post('/small', gzipSync(bytes), gzipped)).body.data).toStrictEqual(digest(bytes))
  })

  test('of many chunks arrives unchanged', async () => {
    expect((await post('/large', stream(10 * mebibyte))).body.data).toStrictEqual(digest(Buffer.alloc(10 * mebibyte)))
  })

  test('in two gzip members is one', async () => {
    const bytes = Buffer.concat([gzipSync('{"a":'), gzipSync('1}')])
    expect((await post('/small', bytes, gzipped)).body.data).toStrictEqual(digest(Buffer.from('{"a":1}')))
  })
})

describe('415', () => {
  test.each(['', 'text/html', 'application/jsonp', 'application/json-seq', 'multipart/form-data; boundary=x', '*/*'])(
    'Content-Type: %s',
    async (type) => {
      await expectRefused(post('/small', '{}', { 'Content-Type': type }), 415, 'Content-Type must be application/json')
    },
  )

  test.each(['iso-8859-1', 'utf-16', 'utf-7', '""'])('charset=%s', async (charset) => {
    await expectRefused(
      post('/small', '{}', { 'Content-Type': `application/json; charset=${charset}` }),
      415,
      'Content-Type charset must be utf-8',
    )
  })

  test.each(['br', 'deflate', 'zstd', 'compress', 'gzip, gzip', 'x'])('Content-Encoding: %s', async (encoding) => {
    const bytes = encoding === 'br' ? brotliCompressSync('{}') : deflateSync('{}')
    await expectRefused(
      post('/small', bytes, { 'Content-Encoding': encoding }),
      415,
      'Content-Encoding must be gzip or absent',
    )
  })
})

test('a header of spaces costs no time', async () => {
  const started = performance.now()
  for (let n = 0; n < 20; n++) {
    const type = `application/json; a${' '.repeat(15_000)}b; charset = utf-8`
    expect((await post('/small', '{}', { 'Content-Type': type })).status).toBe(200)
  }
  expect(performance.now() - started).toBeLessThan(2_000)
})

test.each([
  'application/json;charset=utf-8',
  'APPLICATION/JSON ; Charset="UTF-8"',
  'application/json; charset=utf8; x=y',
])('200: %s', async (type) => {
  expect((await post('/small', '{}', { 'Content-Type': type })).status).toBe(200)
})

test.each(['identity', 'GZIP', ' gzip '])('200: Content-Encoding %s', async (encoding) => {
  const bytes = encoding === 'identity' ? '{}' : gzipSync('{}')
  expect((await post('/small', bytes, { 'Content-Encoding': encoding })).status).toBe(200)
})

describe('413', () => {
  const tooLarge = 'Request body is larger than 1000 bytes'

  test('one byte too many, compressed or not, its length announced or not', async () => {
    await expectRefused(post('/small', Buffer.alloc(1_001)), 413, tooLarge)
    await expectRefused(post('/small', gzipSync(Buffer.alloc(1_001)), gzipped), 413, tooLarge)
    await expectRefused(post('/small', stream(1_001)), 413, tooLarge)
  })

  test('reaches clients that send everything first', async () => {
    const large = 'Request body is larger than 10485760 bytes'
    for (const send of [() => Buffer.alloc(11 * mebibyte), () => stream(22 * mebibyte)]) {
      await expectRefused(post('/large', send()), 413, large)
      await expectRefused(post('/small', send()), 413, tooLarge)
    }
    const connection = await startedUpload({ length: 11 * mebibyte })
    connection.send(Buffer.alloc(11 * mebibyte))
    expect(await connection.received(/"timestamp":\d+\}$/)).toContain('413')
    connection.socket.destroy()
  })

  test('leaves the connection usable', async () => {
    const connection = await startedUpload({ length: 1_001 })
    connection.send(Buffer.alloc(1_001))
    await connection.received(/"timestamp":\d+\}$/)
    connection.send('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
    await connection.received(/"status":"alive"/)
    connection.socket.destroy()
  })

  test('cuts off who never stops sending', async () => {
    const connection = await startedUpload({ chunked: true })
    const block = Buffer.alloc(mebibyte)
    const head = `${block.length.toString(16)}\r\n`
    let sent = 0
    while (!connection.socket.destroyed && sent < 500) {
      connection.send(head)
      connection.send(block)
      const written = connection.socket.write('\r\n')
      sent++
      if (!written)
        await Promise.race([new Promise((resolve) => connection.socket.once('drain', resolve)), connection.closed])
    }
    expect(connection.socket.destroyed).toBe(true)
    expect(sent).toBeLessThan(200)
    await expectServing()
  })

  test('a gzip bomb: a gibibyte of zeros costs little memory', async () => {
    // 64 members of 16 MiB each, which gunzip joins.
    const member = gzipSync(Buffer.alloc(16 * mebibyte))
    const bomb = Buffer.concat(Array.from({ length: 64 }, () => member))
    expect(bomb.length).toBeLessThan(2 * mebibyte)
    await expectRefused(post('/large', bomb, gzipped), 413, 'Request body is larger than 10485760 bytes')
    await expectRefused(post('/small', gzipSync(Buffer.alloc(100 * mebibyte)), gzipped), 413, tooLarge)

    const before = process.memoryUsage().rss
    const answers = await Promise.all(Array.from({ length: 8 }, () => post('/large', bomb, gzipped)))
    expect(answers.map(({ status }) => status)).toStrictEqual(Array.from({ length: 8 }, () => 413))
    // Eight at once, at most 10 MiB each: far below the 8 GiB that they would unpack to.
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * mebibyte)
    await expectServing()
  })
})

describe('400', () => {
  test.each([
    ['none', Buffer.alloc(0)],
    ['plain text', Buffer.from('{"a": 1}')],
    ['half of it', gzipSync('{"a": 1}'.repeat(50)).subarray(0, 30)],
    ['without its checksum', gzipSync('{"a": 1}').subarray(0, -8)],
    ['with a wrong checksum', Buffer.concat([gzipSync('{"a": 1}').subarray(0, -8), Buffer.alloc(8, 1)])],
    ['followed by a broken member', Buffer.concat([gzipSync('{}'), gzipSync('{}').subarray(0, 15)])],
  ])('broken gzip: %s', async (_what, bytes) => {
    await expectRefused(post('/small', bytes, gzipped), 400, 'Invalid format: body is not valid gzip')
    await expectServing()
  })
})

/** A POST to /small whose headers are sent, on a connection of its own. */
async function startedUpload({ length, chunked }: { length?: number; chunked?: true }): Promise<RawConnection> {
  const connection = await connectRaw(service.port)
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${length ?? 0}`
  connection.send(
    `POST /small HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`,
  )
  return connection
}

describe('a client that lies or leaves', () => {
  test('in the middle of a body harms nobody, and its request is logged as such', async () => {
    const before = service.lines().length
    for (const framing of [{ length: 100 }, { chunked: true }] as const) {
      const connection = await startedUpload(framing)
      connection.send('chunked' in framing ? '5\r\n{"a":\r\n' : '{"a":')
      connection.socket.destroy()
    }
    await expectServing()
    const isOver = () =>
      service
        .lines()
        .slice(before)
        .filter(({ status }) => status === 499).length === 2
    while (!isOver()) await new Promise(setImmediate)
    expect(service.text()).not.toContain('"level":"error"')
  })

  test('with fewer bytes than announced gets no success', async () => {
    const connection = await startedUpload({ length: 100 })
    connection.send('{}')
    connection.socket.end()
    expect(await connection.closed).not.toContain('200 OK')
    await expectServing()
  })

  test('with more bytes than announced gets its answer and no other request through', async () => {
    const connection = await startedUpload({ length: 2 })
    connection.send('{}GARBAGE\r\n\r\n')
    const text = await connection.closed
    expect(text).toMatch(/^HTTP\/1\.1 (200|400) /)
    expect(text.match(/200 OK/g)?.length ?? 0).toBeLessThanOrEqual(1)
    await expectServing()
  })

  test('with broken chunks gets no success', async () => {
    const connection = await startedUpload({ chunked: true })
    connection.send('ZZ\r\n{}\r\n0\r\n\r\n')
    expect(await connection.closed).not.toContain('200 OK')
    await expectServing()
  })
})
