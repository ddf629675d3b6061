import { getEventListeners, once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { readAnswer } from '@sluice/sdk-core/read-answer'
import { eventPoster } from './post-events.ts'

// It answers requests for the paths /answers and /null, and redirects one for /moved. It answers no other.
const server = createServer((request, response) => {
  if (request.url?.startsWith('/moved')) response.writeHead(307, { Location: '/answers' }).end()
  else if (request.url?.startsWith('/null')) response.writeHead(202).end('null')
  else if (request.url?.startsWith('/answers')) response.writeHead(202).end('{"timestamp":1}')
  else server.emit('unanswered')
})
let url: string

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const stateOf = (signal: AbortSignal) => inspect(signal, { showHidden: true, customInspect: false, depth: 4 })

describe('a request', () => {
  test('leaves nothing on the signal that may end it, which lives as long as the client', async () => {
    const end = new AbortController()
    const post = eventPoster(`${url}/answers`, 'key', 30_000)
    const first = post(['{}'], end.signal)
    expect(getEventListeners(end.signal, 'abort')).toHaveLength(1)
    expect(await first).toMatchObject({ status: 202, body: { timestamp: 1 } })
    expect(getEventListeners(end.signal, 'abort')).toEqual([])
    const afterOne = stateOf(end.signal)
    await Promise.all([post(['{}'], end.signal), post(['{}'], end.signal)])
    expect(stateOf(end.signal)).toBe(afterOne)
  })

  test('ends with the signal, and is not sent after it', async () => {
    const end = new AbortController()
    const post = eventPoster(url, 'key', 30_000)
    const answer = post(['{}'], end.signal)
    await once(server, 'unanswered')
    end.abort()
    expect(await answer).toMatchObject({ status: 0 })
    expect(await post(['{}'], end.signal)).toMatchObject({ status: 0 })
    expect(getEventListeners(end.signal, 'abort')).toEqual([])
  })

  test('follows no redirect, which might send the key and the events to another server', async () => {
    const { signal } = new AbortController()
    expect(await eventPoster(`${url}/moved`, 'key', 30_000)(['{}'], signal)).toMatchObject({ status: 307 })
  })

  test('that gets JSON of another service is repeated', async () => {
    const answer = await eventPoster(`${url}/null`, 'key', 30_000)(['{}'], new AbortController().signal)
    expect(readAnswer(answer, 1)).toMatchObject({ next: 'repeat', error: 'HTTP 202' })
  })

  test('that finds nobody says so by the code of the connection', async () => {
    const other = createServer()
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const { port } = other.address() as AddressInfo
    other.close()
    await once(other, 'close')
    const answer = await eventPoster(`http://127.0.0.1:${port}`, 'key', 30_000)(['{}'], new AbortController().signal)
    expect(answer).toEqual({ status: 0, body: { error: 'ECONNREFUSED' } })
  })

  test('that fetch refuses says why', async () => {
    // Port 1 is one that the Fetch Standard blocks: nothing is connected, so that there is no code.
    const answer = await eventPoster('http://127.0.0.1:1', 'key', 30_000)(['{}'], new AbortController().signal)
    expect(answer).toEqual({ status: 0, body: { error: 'bad port' } })
  })

  test('without an answer ends after its time', async () => {
    const end = new AbortController()
    const answer = await eventPoster(url, 'key', 20)(['{}'], end.signal)
    expect(answer).toEqual({ status: 0, body: { error: 'TimeoutError' } })
    expect(getEventListeners(end.signal, 'abort')).toEqual([])
  })
})
