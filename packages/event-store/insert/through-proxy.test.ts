import { randomUUID } from 'node:crypto'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { EventRow } from '@sluice/contracts/event-columns'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { type ErasedRows, hashValue } from '../erasures/erased-rows.ts'
import { openEventEraser } from '../erasures/event-eraser.ts'
import { openEventReader } from '../event-reader.ts'
import { openEventInserter } from './event-inserter.ts'

const now = Date.now()
const options = { queryId: 'writer-log-3', shouldReplaceRunning: false, timeoutMs: 10_000 }

let database: TestClickHouse

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
})

afterAll(() => database.drop())

/** Forwards requests to the ClickHouse; as nginx does by default, it refuses those with 8 kB before the body. */
async function startProxy(): Promise<{ url: string; urlLengths: number[]; close: () => Promise<void> }> {
  const urlLengths: number[] = []
  const server = createServer({ maxHeaderSize: 8_192 }, (request, response) => {
    const { method, headers, url = '' } = request
    urlLengths.push(url.length)
    const onward = httpRequest(new URL(url, database.url), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => request.socket.destroy())
    request.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(database.url)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    urlLengths,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

test('inserts pass a proxy that refuses long URLs, undated rows while an erasure runs too', async () => {
  const proxy = await startProxy()
  const inserter = openEventInserter(proxy.url)
  const eraser = openEventEraser(database.url)
  const site = randomUUID()
  const insert = async (fields: Partial<EventRow>): Promise<number> => {
    const row = { site_id: site, environment: 'prod', event_type: 'page_view', timestamp: now, received_at: now }
    const line = Buffer.from(`${JSON.stringify({ ...row, event_id: randomUUID(), ...fields })}\n`)
    return (await inserter.insert({ payloads: [line], hasUndated: fields.undated === 1 }, options)).inserted
  }
  try {
    expect(await insert({})).toBe(1)
    expect(await insert({ undated: 1 })).toBe(1)
    await eraser.storeTombstone({
      erasureId: randomUUID(),
      siteId: site,
      kind: 'before',
      hashes: null,
      before: now,
      requestedAt: now,
    })
    expect(await insert({ timestamp: now - 1, undated: 1 })).toBe(0)
    expect(await insert({ undated: 1 })).toBe(1)
    const user = { site_id: site, environment: 'prod', user_id: 'bob', email: '', name: '', company: '', plan: '' }
    const record = Buffer.from(`${JSON.stringify({ ...user, imported_at: now, version: '1' })}\n`)
    await inserter.insertUsers([record], { timeoutMs: 10_000 })
    expect(Math.max(...proxy.urlLengths)).toBeLessThan(2_600)
  } finally {
    await Promise.all([inserter.close(), eraser.close()])
    await proxy.close()
  }
})

test('deletions of a hundred erasures and of two hundred sites pass it, too', async () => {
  const proxy = await startProxy()
  const inserter = openEventInserter(database.url)
  const eraser = openEventEraser(proxy.url)
  const siteIds = Array.from({ length: 200 }, () => randomUUID())
  const row = { environment: 'prod', event_type: 'page_view', timestamp: now, received_at: now, user_id: 'bob' }
  const lines = siteIds.map((site) => JSON.stringify({ ...row, site_id: site, event_id: randomUUID() }))
  const user = { environment: 'prod', user_id: 'bob', email: '', name: '', company: '', plan: '' }
  const users = siteIds.map((site) => JSON.stringify({ ...user, site_id: site, imported_at: now, version: '1' }))
  const reader = openEventReader(database.readerUrl)
  const runner = reader.runnerFor({ key: 'test', signal: new AbortController().signal, priority: 'interactive' })
  try {
    const erased: ErasedRows[] = []
    for (const siteId of siteIds.slice(0, 100)) {
      const hashes = await hashValue({ kind: 'user_id', siteId, value: 'bob' }, runner)
      erased.push({ erasureId: randomUUID(), siteId, kind: 'user_id', hashes, before: null, requestedAt: now })
    }
    await inserter.insert({ payloads: [Buffer.from(`${lines.join('\n')}\n`)], hasUndated: false }, options)
    await inserter.insertUsers([Buffer.from(`${users.join('\n')}\n`)], { timeoutMs: 10_000 })
    await eraser.startDelete(erased)
    await waitUntil(async () => !(await eraser.isDeleting()), 'the deletions have ended')
    const left = await Promise.all(erased.map((each) => eraser.count(each)))
    expect(left).toStrictEqual(erased.map(() => ({ events: 0, users: 0 })))
    const expired = siteIds.map((siteId) => ({ siteId, before: now + 1 }))
    expect(await eraser.startExpiry(expired, () => Promise.resolve())).toMatchObject({ events: 100 })
  } finally {
    await Promise.all([inserter.close(), eraser.close(), reader.close()])
    await proxy.close()
  }
})
