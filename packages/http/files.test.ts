import { createHash } from 'node:crypto'
import { type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from 'node:http'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { notFound } from '@sluice/runtime/errors'
import { unavailable } from '@sluice/runtime/errors'
import { waitUntil } from '@sluice/runtime/wait-until'
import { downloadBytes, type FileService, startFileService } from '../../tests/support/file-service.ts'
import { connectRaw } from '../../tests/support/test-service.ts'
import { serverLimits } from './server-limits.ts'

let service: FileService

beforeEach(async () => {
  service = await startFileService()
})

afterEach(async () => {
  await service.stop()
})

interface Response {
  status: number
  headers: IncomingHttpHeaders
  bytes: Buffer
}

async function send(
  path: string,
  {
    method = 'GET',
    headers = {},
    body = [],
  }: { method?: string; headers?: object; body?: Iterable<Buffer | string> } = {},
): Promise<Response> {
  const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = httpRequest(`${service.url}${path}`, { method, headers: { ...headers }, agent: false }, resolve)
    outgoing.on('error', reject)
    Readable.from(body).pipe(outgoing)
  })
  const chunks: Buffer[] = []
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk)
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, bytes: Buffer.concat(chunks) }
}

const errorOf = ({ bytes }: Response) => (JSON.parse(bytes.toString()) as { error: string }).error

const boundary = 'a-boundary'
const multipart = { 'Content-Type': `multipart/form-data; boundary=${boundary}` }
const field = (name: string, value: string) =>
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
const file = (name: string, content: string, fileName = 'a.csv') =>
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="${fileName}"\r\nContent-Type: text/csv\r\n\r\n${content}\r\n`
const end = `--${boundary}--\r\n`

const upload = (parts: readonly string[], path = '/upload', headers: object = {}) =>
  send(path, { method: 'POST', headers: { ...multipart, ...headers }, body: parts })

describe('an upload', () => {
  test.each([
    ['before', [field('title', 'A'), file('file', 'a,b\n', 'Größe.csv'), end]],
    ['after', [file('file', 'a,b\n', 'Größe.csv'), field('title', 'A'), end]],
  ])('is stored with fields %s the file', async (_, parts) => {
    const { status, bytes } = await upload(parts)
    expect(status).toBe(201)
    expect(JSON.parse(bytes.toString())).toMatchObject({
      success: true,
      data: {
        title: 'A',
        fileName: 'Größe.csv',
        size: 4,
        sha256: createHash('sha256').update('a,b\n').digest('hex'),
      },
    })
    expect(service.state).toMatchObject({ removed: 0, failed: 0 })
  })

  test('is removed when its handler fails after the file was stored', async () => {
    service.state.handlerError = notFound('Site')
    const response = await upload([field('title', 'A'), file('file', 'a'), end])
    expect([response.status, errorOf(response)]).toEqual([404, 'Site not found'])
    expect(service.state).toMatchObject({ stored: new Set(), removed: 1 })
  })

  test('answers with the first error when the file can not be removed', async () => {
    service.state.removeError = new Error('EACCES')
    const response = await upload([file('file', 'a'), end])
    expect([response.status, errorOf(response)]).toEqual([400, 'Missing required field: title'])
    expect(service.text()).toContain('"file_not_removed":"EACCES"')
  })

  test('may be an empty file', async () => {
    const { status, bytes } = await upload([field('title', 'A'), file('file', ''), end])
    expect(status).toBe(201)
    expect(JSON.parse(bytes.toString())).toMatchObject({ data: { size: 0 } })
  })

  test.each<[string, string[], number, string]>([
    [
      'has the file as a text',
      [field('title', 'A'), field('file', 'a,b'), end],
      400,
      'Invalid field: file must be sent as a file, with a filename in its part',
    ],
    ['has no file', [field('title', 'A'), end], 400, 'Missing required field: file'],
    ['lacks a field after its file', [file('file', 'a'), end], 400, 'Missing required field: title'],
    [
      'has an unknown field',
      [file('file', 'a'), field('title', 'A'), field('x', 'a'), end],
      400,
      'Invalid field: x is not known',
    ],
    [
      'has a field twice',
      [file('file', 'a'), field('title', 'A'), field('title', 'B'), end],
      400,
      'Invalid field: title must be a string',
    ],
    [
      'has two files',
      [field('title', 'A'), file('file', 'a'), file('file', 'b'), end],
      400,
      'Invalid format: body must have one file',
    ],
    [
      'has its file in a field of another name',
      [field('title', 'A'), file('other', 'a'), end],
      400,
      'Invalid format: the file must be in the field "file"',
    ],
    [
      'has a field with brackets',
      [file('file', 'a'), field('title[a]', 'A'), end],
      400,
      'Invalid format: body is not valid multipart/form-data',
    ],
    [
      'has a field that is too long',
      [file('file', 'a'), field('title', 'A'.repeat(8_193)), end],
      400,
      'Invalid format: a field must have at most 8192 bytes',
    ],
    [
      'ends within its file',
      [field('title', 'A'), file('file', 'a')],
      400,
      'Invalid format: body is not valid multipart/form-data',
    ],
    ['is not a multipart body', ['{}'], 400, 'Invalid format: body is not valid multipart/form-data'],
  ])('that %s is refused, and nothing stays stored', async (_, parts, status, error) => {
    const response = await upload(parts)
    expect(errorOf(response)).toBe(error)
    expect(response.status).toBe(status)
    expect(service.state.stored.size).toBe(0)
  })

  test('without a boundary is refused', async () => {
    const response = await upload([end], '/upload', { 'Content-Type': 'multipart/form-data' })
    expect([response.status, errorOf(response)]).toEqual([400, 'Invalid format: body is not valid multipart/form-data'])
  })

  test.each([
    ['another media type', { 'Content-Type': 'application/json' }, 'Content-Type must be multipart/form-data'],
    ['an encoding', { 'Content-Encoding': 'gzip' }, 'Content-Encoding must be absent for multipart/form-data'],
  ])('with %s is refused with 415', async (_, headers, error) => {
    const response = await upload([end], '/upload', headers)
    expect([response.status, errorOf(response)]).toEqual([415, error])
  })

  test('of the largest size is stored, and a larger one is refused with 413 and read to its end', async () => {
    expect((await upload([field('title', 'A'), file('file', 'a'.repeat(1_000)), end], '/upload-small')).status).toBe(
      201,
    )
    const large = [field('title', 'A'), file('file', 'a'.repeat(1_001)), end]
    const response = await upload(large, '/upload-small')
    expect([response.status, errorOf(response)]).toEqual([413, 'File is larger than 1000 bytes'])
    const endless = Array.from({ length: 32 }, () => 'a'.repeat(100_000))
    for (const headers of [{}, { 'Content-Length': String(endless.join('').length) }]) {
      const refused = await upload(endless, '/upload-small', headers)
      expect(refused.status).toBe(413)
    }
    await waitUntil(() => service.state.failed === 1, 'the store has seen the failure')
    expect(service.state.stored.size).toBe(1)
  })

  test('fails with the error of a store that tidies up first, however long that takes', async () => {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    service.state.storeError = unavailable('the disk is full')
    service.state.tidiedUp = promise
    const answer = upload([field('title', 'A'), file('file', 'a'.repeat(1_000_000)), end])
    await waitUntil(() => service.state.failed === 1, 'the store has stopped reading')
    // The rest of the body arrives meanwhile.
    for (let round = 0; round < 1_000; round++) await setImmediate()
    resolve(undefined)
    const response = await answer
    expect([response.status, errorOf(response)]).toEqual([503, 'Service temporarily unavailable'])
  })

  test('gets the error of the store when the store fails', async () => {
    service.state.storeError = unavailable('the disk is full')
    const response = await upload([field('title', 'A'), file('file', 'a'.repeat(300_000)), end])
    expect([response.status, errorOf(response)]).toEqual([503, 'Service temporarily unavailable'])
    service.state.storeError = undefined
    expect((await upload([field('title', 'A'), file('file', 'a'), end])).status).toBe(201)
  })

  test('whose client disconnects half-way fails in the store, and nothing stays stored', async () => {
    const connection = await connectRaw(service.port)
    connection.send(
      `POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: ${multipart['Content-Type']}\r\nContent-Length: 1000000\r\n\r\n`,
    )
    connection.send(field('title', 'A') + file('file', 'a'.repeat(100_000)).slice(0, -2))
    await waitUntil(() => service.state.begun === 1, 'the store has begun')
    connection.socket.destroy()
    await waitUntil(() => service.state.failed === 1, 'the store has seen the failure')
    expect(service.state.stored.size).toBe(0)
  })
})

describe('a download', () => {
  const content = (start: number, end: number) => Buffer.concat([...downloadBytes({ start, end })])

  test('sends the whole file with its name, type, size and ETag', async () => {
    const { status, headers, bytes } = await send('/download/100000')
    expect(status).toBe(200)
    expect(bytes.equals(content(0, 99_999))).toBe(true)
    expect(headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': '100000',
      'content-disposition': `attachment; filename="Gr__e _1_.bin"; filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%221%22.bin`,
      'accept-ranges': 'bytes',
      etag: '"first"',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.any(String),
    })
    expect(headers).not.toHaveProperty('content-range')
  })

  test.each([
    ['bytes=0-0', 0, 0],
    ['bytes=1000-1999', 1000, 1999],
    ['bytes=99990-', 99_990, 99_999],
    ['bytes=99990-200000', 99_990, 99_999],
    ['bytes=-5', 99_995, 99_999],
    ['bytes=-200000', 0, 99_999],
  ])('of the range %s is answered with 206', async (range, start, end) => {
    const { status, headers, bytes } = await send('/download/100000', { headers: { Range: range } })
    expect(status).toBe(206)
    expect(headers['content-range']).toBe(`bytes ${start}-${end}/100000`)
    expect(bytes.equals(content(start, end))).toBe(true)
  })

  test.each([
    ['bytes=0-9,20-29'],
    ['bytes=0-9,10-19'],
    ['bytes=9-0'],
    ['bytes=5000-4000'],
    ['bytes=-'],
    ['bytes=nonsense'],
    ['lines=9999-'],
  ])('of the range %s, which is not exactly one valid range, sends the whole file', async (range) => {
    const { status, bytes } = await send('/download/1000', { headers: { Range: range } })
    expect([status, bytes.length]).toEqual([200, 1_000])
  })

  test.each([
    ['100', 'bytes=100-'],
    ['1000', 'bytes=-0'],
    ['0', 'bytes=0-'],
  ])('of a file of %s bytes refuses the range %s with 416 and the size', async (size, range) => {
    const response = await send(`/download/${size}`, { headers: { Range: range } })
    expect([response.status, errorOf(response)]).toEqual([416, `Range is not within the ${size} bytes of the file`])
    expect(response.headers['content-range']).toBe(`bytes */${size}`)
    expect(service.state.opened).toBe(0)
  })

  test('may be an empty file', async () => {
    const { status, headers, bytes } = await send('/download/0')
    expect([status, headers['content-length'], bytes.length]).toEqual([200, '0', 0])
  })

  test.each([
    ['"first"', 206],
    ['"second"', 200],
    ['W/"first"', 200],
    ['Sun, 22 Nov 2026 00:00:00 GMT', 200],
  ])('with If-Range: %s and a range is answered with %d', async (condition, expected) => {
    const { status } = await send('/download/100', { headers: { Range: 'bytes=0-9', 'If-Range': condition } })
    expect(status).toBe(expected)
  })

  test.each([
    ['GET', 'If-Match', '"first"', 200],
    ['GET', 'If-Match', '"second", "first"', 200],
    ['GET', 'If-Match', '*', 200],
    ['GET', 'If-Match', '"second"', 412],
    ['GET', 'If-Match', 'W/"first"', 412],
    ['GET', 'If-Match', '', 412],
    ['HEAD', 'If-Match', '"second"', 412],
    ['GET', 'If-None-Match', '"first"', 304],
    ['GET', 'If-None-Match', '"second", W/"first"', 304],
    ['GET', 'If-None-Match', '*', 304],
    ['GET', 'If-None-Match', '"second"', 200],
    ['HEAD', 'If-None-Match', '"first"', 304],
  ])('by %s with %s: %s is answered with %d', async (method, name, condition, expected) => {
    const { status } = await send('/download/100', { method, headers: { [name]: condition } })
    expect(status).toBe(expected)
    expect(service.state.opened).toBe(status === 200 ? 1 : 0)
  })

  test.each([
    ['a, b', '"a, b"', 304],
    ['a, b', '"x", "a, b"', 304],
    ['b', '"a, b"', 200],
    ['b', '"a","b","c"', 304],
  ])('named %s is known to a client with If-None-Match: %s only as a whole', async (etag, condition, expected) => {
    service.state.etag = etag
    expect((await send('/download/100', { headers: { 'If-None-Match': condition } })).status).toBe(expected)
  })

  test('that the client has is answered without a body, but with its ETag', async () => {
    const { headers, bytes } = await send('/download/100', { headers: { 'If-None-Match': '"first"' } })
    expect(headers).toMatchObject({ etag: '"first"', 'cache-control': 'no-store', 'x-request-id': expect.any(String) })
    expect(headers).not.toHaveProperty('content-type')
    expect(bytes.length).toBe(0)
  })

  test('that is not the one of If-Match is refused before its range is looked at', async () => {
    const response = await send('/download/100', {
      headers: { 'If-Match': '"second"', 'If-None-Match': '"first"', Range: 'bytes=100-' },
    })
    expect([response.status, errorOf(response)]).toEqual([412, 'The file is not the one that If-Match names'])
    expect(service.state.opened).toBe(0)
  })

  test('that the client has is not sent again, whatever its range', async () => {
    const response = await send('/download/100', {
      headers: { 'If-Match': '"first"', 'If-None-Match': '"first"', Range: 'bytes=100-' },
    })
    expect(response.status).toBe(304)
  })

  test('by HEAD sends the headers only, and the file is not opened', async () => {
    const { status, headers, bytes } = await send('/download/100', { method: 'HEAD', headers: { Range: 'bytes=0-9' } })
    expect([status, headers['content-length'], bytes.length]).toEqual([200, '100', 0])
    expect(service.state.opened).toBe(0)
  })

  test('closes its stream when the client disconnects', async () => {
    const connection = await connectRaw(service.port)
    connection.send('GET /download/200000000 HTTP/1.1\r\nHost: a\r\n\r\n')
    await connection.received(/200 OK/)
    expect(service.state.open).toBe(1)
    connection.socket.destroy()
    await waitUntil(() => service.state.open === 0, 'the stream is closed')
  })

  test('is refused with 503 while clients that do not read hold the memory of downloads', async () => {
    const admitted = serverLimits.publicInFlightBytesMax / serverLimits.downloadBytes
    const connections = await Promise.all(Array.from({ length: admitted }, () => connectRaw(service.port)))
    for (const connection of connections) {
      connection.socket.pause()
      connection.send('GET /download/200000000 HTTP/1.1\r\nHost: a\r\n\r\n')
    }
    await waitUntil(() => service.state.open === admitted, 'all downloads have begun')
    const refused = await send('/download/1')
    expect([refused.status, errorOf(refused)]).toEqual([503, 'Service temporarily unavailable'])
    expect(service.state.opened).toBe(admitted)

    connections[0]?.socket.destroy()
    await waitUntil(() => service.state.open === admitted - 1, 'one download has ended')
    const { status, bytes } = await send('/download/1')
    expect([status, bytes.length]).toEqual([200, 1])
    for (const { socket } of connections) socket.destroy()
  })

  test('closes its stream when its headers can not be written', async () => {
    service.state.etag = 'a name\nof two lines'
    const response = await send('/download/1000')
    expect([response.status, errorOf(response)]).toEqual([500, 'Internal server error'])
    expect(service.state.opened).toBe(1)
    await waitUntil(() => service.state.open === 0, 'the stream is closed')
  })

  test('whose stream ends early is aborted, and the reason is logged', async () => {
    service.state.missingBytes = 10
    await expect(send('/download/1000')).rejects.toThrow('aborted')
    await waitUntil(() => service.lines().length > 0, 'the request is logged')
    expect(service.lines().at(-1)).toMatchObject({ status: 200, aborted: true, err: expect.anything() })
  })
})
