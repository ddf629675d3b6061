import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, request as httpRequest } from 'node:http'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from '@jest/globals'
import { sleep } from '@sluice/runtime/sleep'
import { waitUntil } from '@sluice/runtime/wait-until'
import { byteAt, type FileService, startFileService } from '../../tests/support/file-service.ts'
import { connectRaw } from '../../tests/support/test-service.ts'
import type { ServerLimits } from './server-limits.ts'

const mebibyte = 1024 * 1024
const fileBytes = 200 * mebibyte
const rssGrowthMax = 64 * mebibyte

const closers: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

const boundary = 'a-boundary'
const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n\r\n`
const tail = `\r\n--${boundary}\r\nContent-Disposition: form-data; name="title"\r\n\r\nA\r\n--${boundary}--\r\n`
const contentType = `multipart/form-data; boundary=${boundary}`

/** The file service in a process of its own. Returns its URL. */
async function startProcess(): Promise<string> {
  const path = fileURLToPath(new URL('../../tests/support/file-service-process.ts', import.meta.url))
  const child = spawn(process.execPath, [path], { stdio: ['pipe', 'pipe', 'inherit'] })
  closers.push(async () => {
    child.stdin.end()
    await once(child, 'exit')
  })
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  return `http://127.0.0.1:${Number(port.toString())}`
}

async function maxRssBytes(url: string): Promise<number> {
  const { data } = (await (await fetch(`${url}/memory`)).json()) as { data: { maxRssBytes: number } }
  return data.maxRssBytes
}

/** Uploads a file of `bytes` bytes. */
async function upload(url: string, bytes: number): Promise<IncomingMessage> {
  const chunk = Buffer.alloc(mebibyte, 'a')
  const outgoing = httpRequest(`${url}/upload`, { method: 'POST', headers: { 'Content-Type': contentType } })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  outgoing.write(head)
  for (let sent = 0; sent < bytes; sent += chunk.length) if (!outgoing.write(chunk)) await once(outgoing, 'drain')
  outgoing.end(tail)
  const [uploaded] = await answered
  return uploaded
}

test('a file of 200 MiB is uploaded, and downloaded in parts, with constant memory', async () => {
  const url = await startProcess()
  // Warms up: memory that the first requests need for loading and compiling code is not counted as growth.
  await upload(url, 16 * mebibyte).then((response) => response.toArray())
  await fetch(`${url}/download/${16 * mebibyte}`).then((response) => response.arrayBuffer())
  const before = await maxRssBytes(url)

  const uploaded = await upload(url, fileBytes)
  const body = Buffer.concat((await uploaded.toArray()) as Buffer[]).toString()
  expect([uploaded.statusCode, body]).toEqual([201, expect.stringContaining(`"size":${fileBytes}`)])
  expect((await maxRssBytes(url)) - before).toBeLessThan(rssGrowthMax)

  const middle = fileBytes / 2
  for (const [range, from, length] of [
    [`bytes=0-${middle - 1}`, 0, middle],
    [`bytes=${middle}-`, middle, fileBytes - middle],
  ] as const) {
    const response = await fetch(`${url}/download/${fileBytes}`, { headers: { Range: range } })
    expect(response.status).toBe(206)
    let received = 0
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
      if (part[0] !== byteAt(from + received)) throw new Error(`the byte ${from + received} is wrong`)
      received += part.length
    }
    expect(received).toBe(length)
  }
  expect((await maxRssBytes(url)) - before).toBeLessThan(rssGrowthMax)
})

/** Timeouts short enough for a test to wait for; the idle timeout is longer than the pauses of the tests. */
const limits = { headersTimeoutMs: 300, requestTimeoutMs: 300, timeoutCheckMs: 50, idleTimeoutMs: 5_000 }

/** A connection that has sent the headers of an upload. */
async function startUpload(length: number, more: Partial<ServerLimits> = {}) {
  const service: FileService = await startFileService({ ...limits, ...more })
  closers.push(() => service.stop())
  const connection = await connectRaw(service.port)
  connection.send(
    `POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: ${contentType}\r\nContent-Length: ${length}\r\nConnection: close\r\n\r\n`,
  )
  return { service, connection }
}

test('an upload that makes progress may take longer than the request timeout', async () => {
  const content = 'a'.repeat(10)
  const { service, connection } = await startUpload(head.length + content.length + tail.length)
  connection.send(head)
  for (const byte of content) {
    connection.send(byte)
    await sleep(100)
  }
  connection.send(tail)
  expect(await connection.closed).toMatch(/^HTTP\/1\.1 201 Created/)
  expect(service.state.stored.size).toBe(1)
})

test('an upload without progress is closed by the idle timeout, and nothing stays stored', async () => {
  const { service, connection } = await startUpload(1_000)
  connection.send(`${head}abc`)
  await connection.closed
  await waitUntil(() => service.state.failed === 1, 'the store has seen the failure')
  expect(service.state.stored.size).toBe(0)
})

test('an upload that makes progress, though too slowly, is disconnected, and nothing stays stored', async () => {
  // The largest file, 256 MiB, takes half a second at this speed; the file that is sent would take hours.
  const { service, connection } = await startUpload(100_000, { uploadBytesPerSecondMin: 512 * mebibyte })
  connection.send(`${head}a`)
  await waitUntil(() => service.state.begun === 1, 'the file has begun')
  const sending = setInterval(() => connection.send('a'), 50)
  expect(await connection.closed).toBe('')
  clearInterval(sending)
  await waitUntil(() => service.state.failed === 1, 'the store has seen the failure')
  expect(service.state.stored.size).toBe(0)
})

test('a client that does not send its headers in time gets 408', async () => {
  const service = await startFileService(limits)
  closers.push(() => service.stop())
  const slow = await connectRaw(service.port)
  slow.send('POST /upload HTTP/1.1\r\nHost: a\r\n')
  expect(await slow.closed).toMatch(/^HTTP\/1\.1 408 Request Timeout/)
})
