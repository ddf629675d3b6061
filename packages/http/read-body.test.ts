import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import {
  brotliCompressSync,
  constants,
  createBrotliCompress,
  createDeflate,
  createDeflateRaw,
  createGzip,
  createZstdCompress,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { contentEncodings } from '@sluice/contracts/media-types'
import { waitUntil } from '@sluice/runtime/wait-until'
import { collectGarbageAsServices } from '../../tests/support/service-garbage.ts'
import { startCpuStopwatch } from '../../tests/support/stopwatch.ts'
import {
  connectRaw,
  keysInMemory,
  type RawConnection,
  request,
  startTestService,
  type TestService,
} from '../../tests/support/test-service.ts'
import { readBody } from './read-body.ts'
import type { Route } from './route.ts'

const mebibyte = 1024 * 1024
const key = generateKey('prod')
const otherKey = generateKey('prod')

collectGarbageAsServices()

/** A route that returns the length and the hash of the body that it received. */
function digestRoute(path: string, maxBytes: number): Route {
  return {
    method: 'POST',
    path,
    scope: 'events:write',
    limit: 'events',
    body: { kind: 'json', maxBytes },
    handle: ({ body: { bytes } }) => Promise.resolve({ status: 200, data: digest(bytes) }),
  }
}

function digest(bytes: Buffer): { length: number; hash: string } {
  return { length: bytes.length, hash: createHash('sha256').update(bytes).digest('hex') }
}

let service: TestService

beforeAll(async () => {
  service = await startTestService(
    {
      routes: [
        digestRoute('/small', 1_000),
        digestRoute('/large', 10 * mebibyte),
        { ...digestRoute('/optional', 1_000), body: { kind: 'json', maxBytes: 1_000, optional: true } },
      ],
    },
    keysInMemory({ [key]: { scopes: ['events:write'] }, [otherKey]: { scopes: ['events:write'] } }),
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

/** Every way to compress a body: the value of Content-Encoding, the format, and the functions that compress. */
const compressions = [
  { encoding: 'gzip', as: 'gzip', compress: gzipSync, stream: () => createGzip(), bombMiB: 1024 },
  { encoding: 'x-gzip', as: 'gzip', compress: gzipSync, stream: () => createGzip() },
  { encoding: 'deflate', as: 'zlib', compress: deflateSync, stream: () => createDeflate() },
  { encoding: 'deflate', as: 'raw', compress: deflateRawSync, stream: () => createDeflateRaw() },
  {
    encoding: 'br',
    as: 'brotli',
    compress: brotliCompressSync,
    stream: () => createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  },
  { encoding: 'zstd', as: 'zstd', compress: zstdCompressSync, stream: () => createZstdCompress() },
]

test('the tests below cover every accepted encoding', () => {
  expect(compressions.map(({ encoding }) => encoding)).toEqual(expect.arrayContaining([...contentEncodings]))
})

/** Compresses `mebibytes` MiB of zeros. */
async function bombOf(stream: ReturnType<(typeof compressions)[number]['stream']>, mebibytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  const zeros = Buffer.alloc(16 * mebibyte)
  for (let n = 0; n < mebibytes / 16; n++) if (!stream.write(zeros)) await once(stream, 'drain')
  stream.end()
  await once(stream, 'end')
  return Buffer.concat(chunks)
}

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
  const { status: actualStatus, body } = await answer
  expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
  expect(actualStatus).toBe(status)
}

async function expectServing(): Promise<void> {
  expect((await post('/small', '{}')).status).toBe(200)
}

describe('a body', () => {
  test.each([0, 1, 999, 1_000])('of %i bytes arrives unchanged', async (length) => {
    const bytes = Buffer.alloc(length, 'ü')
    expect((await post('/small', bytes)).body.data).toStrictEqual(digest(bytes))
    for (const { encoding, compress } of compressions) {
      const { body } = await post('/small', compress(bytes), { 'Content-Encoding': encoding })
      expect([encoding, body.data]).toStrictEqual([encoding, digest(bytes)])
    }
  })

  test.each(compressions)('of 10 MiB in $encoding ($as) arrives unchanged', async ({ encoding, compress }) => {
    const bytes = Buffer.alloc(10 * mebibyte, 'How much wood would a woodchuck chuck? ')
    expect((await post('/large', compress(bytes), { 'Content-Encoding': encoding })).body.data).toStrictEqual(
      digest(bytes),
    )
  })

  test('in raw deflate arrives unchanged, whatever its first bytes are', async () => {
    for (let length = 0; length < 300; length += 7) {
      const bytes = Buffer.alloc(length, `{"${length}": "`)
      for (const level of [0, 1, 9]) {
        for (const strategy of [constants.Z_DEFAULT_STRATEGY, constants.Z_FIXED]) {
          const compressed = deflateRawSync(bytes, { level, strategy })
          const { body } = await post('/small', compressed, { 'Content-Encoding': 'deflate' })
          expect(body.data).toStrictEqual(digest(bytes))
        }
      }
    }
  })

  test('whose compressor flushed several times arrives whole', async () => {
    for (const { encoding, stream: open } of compressions) {
      const compressor = open()
      const chunks: Buffer[] = []
      compressor.on('data', (chunk: Buffer) => chunks.push(chunk))
      for (const part of ['{"a"', ':', '1}']) {
        compressor.write(part)
        await new Promise<void>((resolve) => compressor.flush(resolve))
      }
      compressor.end()
      await once(compressor, 'end')
      const { body } = await post('/small', Buffer.concat(chunks), { 'Content-Encoding': encoding })
      expect([encoding, body.data]).toStrictEqual([encoding, digest(Buffer.from('{"a":1}'))])
    }
  })

  test('in chunks of one byte to some hundred arrives unchanged', async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, n) => (n * 7) % 251))
    const parts: (string | Buffer)[] = [
      'POST /large HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n',
      `Authorization: Bearer ${key}\r\nConnection: close\r\n\r\n`,
    ]
    for (let at = 0; at < bytes.length;) {
      const chunk = bytes.subarray(at, at + (at < 100_000 ? 1 : 1 + (at % 700)))
      at += chunk.length
      parts.push(`${chunk.length.toString(16)}\r\n`, chunk, '\r\n')
    }
    const connection = await connectRaw(service.port)
    connection.send(Buffer.concat([...parts, '0\r\n\r\n'].map((part) => Buffer.from(part))))
    const [, body = ''] = (await connection.closed).split('\r\n\r\n')
    expect(JSON.parse(body)).toMatchObject({ data: digest(bytes) })
  })

  test('in chunks of one byte takes little more memory than its bytes', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const count = 500_000
    let received = 0
    const body = Promise.withResolvers<Buffer>()
    const server = createServer((incoming, response) => {
      const reserve = (bytes: number): void => {
        received += bytes
      }
      readBody(incoming, mebibyte, reserve).then(body.resolve, body.reject)
      response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { socket, send } = await connectRaw((server.address() as AddressInfo).port)
    collectGarbage()
    const before = process.memoryUsage().heapUsed
    send(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(count)}`)
    await waitUntil(() => received === count, 'all chunks are read')
    collectGarbage()
    expect((process.memoryUsage().heapUsed - before) / mebibyte).toBeLessThan(16)
    send('0\r\n\r\n')
    expect(digest(await body.promise)).toStrictEqual(digest(Buffer.alloc(count, 'x')))
    socket.destroy()
    server.close()
  })

  test('in many chunks arrives unchanged', async () =>
    expect((await post('/large', stream(10 * mebibyte))).body.data).toStrictEqual(digest(Buffer.alloc(10 * mebibyte))))

  test('in two gzip members is read as one body', async () => {
    const bytes = Buffer.concat([gzipSync('{"a":'), gzipSync('1}')])
    expect((await post('/small', bytes, gzipped)).body.data).toStrictEqual(digest(Buffer.from('{"a":1}')))
  })
})

describe('a body is refused with 415 for', () => {
  test.each(['', 'text/html', 'application/jsonp', 'application/json-seq', 'multipart/form-data; boundary=x', '*/*'])(
    'Content-Type: %s',
    async (type) => {
      const refused = post('/small', '{}', { 'Content-Type': type })
      await expectRefused(refused, 415, 'Content-Type must be application/json')
      expect((await refused).headers.has('Accept-Encoding')).toBe(false)
    },
  )

  test.each(['iso-8859-1', 'utf-16', 'utf-7', '""'])('charset=%s', async (charset) => {
    await expectRefused(
      post('/small', '{}', { 'Content-Type': `application/json; charset=${charset}` }),
      415,
      'Content-Type charset must be utf-8',
    )
  })

  test.each(['compress', 'gzip, gzip', 'gzip, identity', 'x-deflate', 'gzip;q=1', 'none', '*'])(
    'Content-Encoding: %s',
    async (encoding) => {
      const refused = post('/small', gzipSync('{}'), { 'Content-Encoding': encoding })
      await expectRefused(refused, 415, 'Content-Encoding must be gzip, deflate, br, zstd or absent')
      expect((await refused).headers.get('Accept-Encoding')).toBe('gzip, deflate, br, zstd')
    },
  )
})

test('a Content-Type header full of spaces is parsed quickly', async () => {
  const elapsedMs = startCpuStopwatch()
  for (let n = 0; n < 20; n++) {
    const type = `application/json; a${' '.repeat(15_000)}b; charset = utf-8`
    expect((await post('/small', '{}', { 'Content-Type': type })).status).toBe(200)
  }
  expect(elapsedMs()).toBeLessThan(10_000)
})

test.each([
  'application/json;charset=utf-8',
  'APPLICATION/JSON ; Charset="UTF-8"',
  'application/json; charset=utf8; x=y',
])('the Content-Type %s is accepted', async (type) => {
  expect((await post('/small', '{}', { 'Content-Type': type })).status).toBe(200)
})

test.each(['', 'identity', 'Identity', 'GZIP', ' gzip ', 'X-GZip'])(
  'the Content-Encoding %j is accepted',
  async (encoding) => {
    const bytes = ['', 'identity'].includes(encoding.toLowerCase()) ? '{}' : gzipSync('{}')
    expect((await post('/small', bytes, { 'Content-Encoding': encoding })).status).toBe(200)
  },
)

test('an empty body has no encoding where the body may be left out', async () => {
  expect((await post('/optional', '', gzipped)).body.data).toStrictEqual(digest(Buffer.alloc(0)))
  await expectRefused(post('/optional', '{}', gzipped), 400, 'Invalid format: body is not valid gzip')
  await expectRefused(post('/small', '', gzipped), 400, 'Invalid format: body is not valid gzip')
})

describe('the response 413', () => {
  const tooLarge = 'Request body is larger than 1000 bytes'

  test('is sent for one byte too many, compressed or not, with or without Content-Length', async () => {
    await expectRefused(post('/small', Buffer.alloc(1_001)), 413, tooLarge)
    for (const { encoding, compress } of compressions) {
      const headers = { 'Content-Encoding': encoding }
      await expectRefused(post('/small', compress(Buffer.alloc(1_001)), headers), 413, tooLarge)
    }
    await expectRefused(post('/small', stream(1_001)), 413, tooLarge)
  })

  test('reaches clients that send the whole body before they read', async () => {
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

  test('is followed by a closed connection when the client never stops sending', async () => {
    const connection = await startedUpload({ chunked: true })
    const block = Buffer.alloc(mebibyte)
    const head = `${block.length.toString(16)}\r\n`
    let blocksSent = 0
    while (!connection.socket.destroyed && blocksSent < 500) {
      connection.send(head)
      connection.send(block)
      const written = connection.socket.write('\r\n')
      blocksSent++
      if (!written)
        await Promise.race([new Promise((resolve) => connection.socket.once('drain', resolve)), connection.closed])
    }
    expect(connection.socket.destroyed).toBe(true)
    expect(blocksSent).toBeLessThan(200)
    await expectServing()
  })

  // The compression of a gibibyte takes a second or two.
  test.each(compressions.map((each) => ({ bombMiB: 256, ...each })))(
    'for $bombMiB MiB of zeros in $encoding ($as) takes little memory',
    async ({ encoding, stream, bombMiB }) => {
      const bomb = await bombOf(stream(), bombMiB)
      expect(bomb.length).toBeLessThan(6 * mebibyte)
      const headers = { 'Content-Encoding': encoding }
      await expectRefused(post('/small', bomb.subarray(0, 1_000), headers), 413, tooLarge)

      const before = process.memoryUsage().rss
      const elapsedMs = startCpuStopwatch()
      const answers = await Promise.all(Array.from({ length: 16 }, () => post('/large', bomb, headers)))
      // On a busy machine, the last requests may be refused with 503 before their bodies are decompressed.
      const looked = answers.filter(({ status }) => status !== 503)
      expect(looked.length).toBeGreaterThan(0)
      expect(new Set(looked.map(({ body }) => body.error))).toStrictEqual(
        new Set(['Request body is larger than 10485760 bytes']),
      )
      expect(looked.map(({ status }) => status)).toStrictEqual(looked.map(() => 413))
      // Four bodies at a time of at most 10 MiB each, and the compressed bodies: far below 16 times the zeros.
      expect(process.memoryUsage().rss - before).toBeLessThan(300 * mebibyte)
      // Decompressing all of them to their ends takes longer.
      expect(elapsedMs()).toBeLessThan(20 * bombMiB)
      await expectServing()
    },
  )

  test('is sent for a gzip bomb of many members', async () => {
    const member = gzipSync(Buffer.alloc(16 * mebibyte))
    const bomb = Buffer.concat(Array.from({ length: 64 }, () => member))
    await expectRefused(post('/large', bomb, gzipped), 413, 'Request body is larger than 10485760 bytes')
  })

  test('is not sent for fifty bodies of the largest size, which are decompressed a few at a time while there is time', async () => {
    const full = zstdCompressSync(Buffer.alloc(10 * mebibyte))
    const before = process.memoryUsage().rss
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => post('/large', full, { 'Content-Encoding': 'zstd' })),
    )
    // On a busy machine, the last requests may be refused with 503.
    for (const { status } of answers) expect([200, 503]).toContain(status)
    expect(answers[0]?.status).toBe(200)
    expect(process.memoryUsage().rss - before).toBeLessThan(400 * mebibyte)
  })
})

test('a compressed body does not wait for all those of another key', async () => {
  const bomb = brotliCompressSync(Buffer.alloc(11 * mebibyte))
  let answered = 0
  const isUnderWay = Promise.withResolvers<undefined>()
  const bombs = Array.from({ length: 60 }, async () => {
    await post('/large', bomb, { 'Content-Encoding': 'br' })
    if (++answered === 3) isUnderWay.resolve(undefined)
  })
  await isUnderWay.promise
  const answeredInOrder: string[] = []
  const bodyOf = async (sender: string, usedKey: string) => {
    const { status } = await post('/small', gzipSync('{}'), { ...gzipped, Authorization: `Bearer ${usedKey}` })
    answeredInOrder.push(`${sender} ${status}`)
  }
  await Promise.all([bodyOf('the same key', key), bodyOf('another key', otherKey), ...bombs])
  // On a busy machine, the body of the same key may have waited for too long, which is refused with 503.
  expect(answeredInOrder).toStrictEqual(['another key 200', expect.stringMatching(/^the same key (200|503)$/)])
})

describe('a body is refused with 400 for', () => {
  const text = '{"a": 1}'.repeat(50)

  describe.each(compressions)('$encoding ($as)', ({ encoding, as, compress }) => {
    const name = encoding === 'x-gzip' ? 'gzip' : encoding
    const good = compress(text)
    const beyond = as === 'gzip' ? 'body is not valid gzip' : `body has data after the end of its ${name}`
    const flipped = Buffer.from(good)
    flipped.writeUInt8((flipped[0] ?? 0) ^ 0xff, 0)

    test.each([
      ['an empty body', Buffer.alloc(0), `body is not valid ${name}`],
      ['plain text', Buffer.from('{"a": 1}'), `body is not valid ${name}`],
      ['a wrong first byte', flipped, `body is not valid ${name}`],
      ['a body cut in half', good.subarray(0, good.length / 2), `body is not valid ${name}`],
      ['a body without its last byte', good.subarray(0, -1), `body is not valid ${name}`],
      ['text after the end', Buffer.concat([good, Buffer.from('more')]), beyond],
      ['zeros after the end', Buffer.concat([good, Buffer.alloc(8)]), `body has data after the end of its ${name}`],
      [
        'zeros and a second body after the end',
        Buffer.concat([good, Buffer.alloc(1), good]),
        `body has data after the end of its ${name}`,
      ],
    ])('%s', async (_what, bytes, reason) => {
      await expectRefused(post('/small', bytes, { 'Content-Encoding': encoding }), 400, `Invalid format: ${reason}`)
    })

    test('a cut at any place, and any broken byte does no harm', async () => {
      const compressed = compress('{"a": "some text, some text"}')
      for (let at = 0; at < compressed.length; at++) {
        const cut = await post('/small', compressed.subarray(0, at), { 'Content-Encoding': encoding })
        expect(cut.status).toBe(400)
        const broken = Buffer.from(compressed)
        broken.writeUInt8((broken[at] ?? 0) ^ 0x55, at)
        expect([200, 400, 413]).toContain((await post('/small', broken, { 'Content-Encoding': encoding })).status)
      }
      await expectServing()
    })
  })

  test.each([
    ['without a checksum', gzipSync(text).subarray(0, -8)],
    ['with a wrong checksum', Buffer.concat([gzipSync(text).subarray(0, -8), Buffer.alloc(8, 1)])],
    ['followed by a broken member', Buffer.concat([gzipSync('{}'), gzipSync('{}').subarray(0, 15)])],
  ])('a gzip body %s', async (_what, bytes) => {
    await expectRefused(post('/small', bytes, gzipped), 400, 'Invalid format: body is not valid gzip')
  })

  test('a second zstd frame or brotli stream, which would be lost', async () => {
    for (const { encoding, compress } of compressions.filter(({ as }) => as !== 'gzip')) {
      await expectRefused(
        post('/small', Buffer.concat([compress('{"a":'), compress('1}')]), { 'Content-Encoding': encoding }),
        400,
        `Invalid format: body has data after the end of its ${encoding}`,
      )
    }
  })

  test('a zstd window that is larger than the largest body', async () => {
    const bytes = Buffer.alloc(mebibyte)
    const compressed = (windowLog: number) => {
      const compressor = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: windowLog } })
      const chunks: Buffer[] = []
      compressor.on('data', (chunk: Buffer) => chunks.push(chunk))
      // In two parts, so that the length is not known when the frame begins.
      compressor.write(bytes.subarray(1))
      compressor.end(bytes.subarray(0, 1))
      return once(compressor, 'end').then(() => Buffer.concat(chunks))
    }
    const zstd = { 'Content-Encoding': 'zstd' }
    // Windows that RFC 9659 allows, and the window that a body of 10 MiB may need.
    for (const windowLog of [20, 23, 24])
      expect((await post('/large', await compressed(windowLog), zstd)).status).toBe(200)
    const reason = 'Invalid format: body needs a larger zstd window than 16777216 bytes'
    await expectRefused(post('/large', await compressed(25), zstd), 400, reason)
  })
})

/** Opens a connection and sends the headers of a POST to /small. */
async function startedUpload({ length, chunked }: { length?: number; chunked?: true }): Promise<RawConnection> {
  const connection = await connectRaw(service.port)
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${length ?? 0}`
  connection.send(
    `POST /small HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`,
  )
  return connection
}

describe('a client', () => {
  test('that disconnects in the middle of a body is logged with status 499 and affects no other client', async () => {
    const before = service.lines().length
    for (const framing of [{ length: 100 }, { chunked: true }] as const) {
      const connection = await startedUpload(framing)
      connection.send('chunked' in framing ? '5\r\n{"a":\r\n' : '{"a":')
      connection.socket.destroy()
    }
    await expectServing()
    const lines = () => service.lines().slice(before)
    const isOver = () => lines().filter(({ status }) => status === 499).length === 2
    while (!isOver()) await new Promise(setImmediate)
    expect(lines().map(({ level }) => level)).not.toContain('error')
  })

  test('that sends fewer bytes than announced gets no success', async () => {
    const connection = await startedUpload({ length: 100 })
    connection.send('{}')
    connection.socket.end()
    expect(await connection.closed).not.toContain('200 OK')
    await expectServing()
  })

  test('that sends more bytes than announced gets at most one successful response', async () => {
    const connection = await startedUpload({ length: 2 })
    connection.send('{}GARBAGE\r\n\r\n')
    const text = await connection.closed
    expect(text).toMatch(/^HTTP\/1\.1 (200|400) /)
    expect(text.match(/200 OK/g)?.length ?? 0).toBeLessThanOrEqual(1)
    await expectServing()
  })

  test('that sends invalid chunks gets no success', async () => {
    const connection = await startedUpload({ chunked: true })
    connection.send('ZZ\r\n{}\r\n0\r\n\r\n')
    expect(await connection.closed).not.toContain('200 OK')
    await expectServing()
  })
})

test.each([
  ['an unknown key', '/small', generateKey('prod'), 401],
  ['a body that is too large', '/large', key, 413],
])(
  'a client that closes its connection afterwards can send all of a body that is refused, for %s',
  async (_, path, usedKey, status) => {
    const body = Buffer.alloc(32 * mebibyte, ' ')
    const connection = await connectRaw(service.port)
    connection.send(
      `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer ${usedKey}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    await connection.received(new RegExp(`^HTTP/1.1 ${status} `))
    let resetBy: Error | undefined
    connection.socket.on('error', (error) => {
      resetBy = error
    })
    const isSent = new Promise<boolean>((resolve) => {
      connection.socket.write(body, (error) => resolve(!error))
    })
    expect(await isSent).toBe(true)
    expect(await connection.closed).toContain('"success":false')
    expect(resetBy).toBeUndefined()
  },
)
