import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { useSdk } from '../../tests/sdk-node/use-sdk.ts'
import { findFreePort } from '../../tests/support/free-port.ts'
import { createSluice } from './index.ts'
import { openSluice } from './open-sluice.ts'

const sdk = useSdk()
const { errors, idsOf, open, optionsOf, requestsOf } = sdk

describe('requests', () => {
  test('hold at most 2,000 events, are compressed, and run four at a time', async () => {
    let most = 0
    sdk.proxy.treat = () => {
      most = Math.max(most, requestsOf('many').filter(({ answer }) => answer === undefined).length)
      // The first four wait for one another, so that a fifth would show.
      return requestsOf('many').length <= 4 ? { kind: 'together', count: 4 } : { kind: 'forward' }
    }
    const sluice = open('many')
    for (let n = 0; n < 12_000; n++) sluice.track('view', { n })
    expect(await sluice.flush({ timeoutMs: 60_000 })).toEqual({ sent: 12_000, pending: 0, rejected: 0 })
    const requests = requestsOf('many')
    expect(Math.max(...requests.map(({ events }) => events.length))).toBe(2_000)
    expect(requests.every(({ headers }) => headers['content-encoding'] === 'gzip')).toBe(true)
    expect(most).toBe(4)
    expect(new Set(idsOf('many').flat()).size).toBe(12_000)
  })

  test('of less than 1 KiB are not compressed', async () => {
    const sluice = open('small')
    sluice.track('view')
    await sluice.flush()
    expect(requestsOf('small')[0]?.headers['content-encoding']).toBeUndefined()
  })

  test('begin by themselves after a second, or at 500 events', async () => {
    const sluice = open('alone')
    sluice.track('view')
    await waitUntil(() => requestsOf('alone').length === 1, 'the event is sent after a second')
    for (let n = 0; n < 501; n++) sluice.track('view')
    await waitUntil(() => requestsOf('alone').length === 3, 'all events are sent')
    expect(idsOf('alone').map(({ length }) => length)).toEqual([1, 500, 1])
  })

  test.each([
    ['events', { queueEventsMax: 100 }, 51],
    ['bytes', { queueBytesMax: 40_000 }, 10],
  ])('begin when half of the %s that the queue may have wait', async (unit, limit, count) => {
    const site = `half-${unit}`
    const sluice = open(site, limit)
    for (let n = 0; n < count + 5; n++) sluice.track('view', { text: 'x'.repeat(2_000) })
    await sluice.flush()
    expect(Math.max(...idsOf(site).map(({ length }) => length))).toBe(count)
  })
})

test('requests run in the context of no caller, whoever has tracked the events or flushes', async () => {
  const storage = new AsyncLocalStorage<string>()
  const stores: unknown[] = []
  const { fetch } = globalThis
  globalThis.fetch = (...call) => {
    stores.push(storage.getStore())
    return fetch(...call)
  }
  try {
    // As in an application that creates the client with the first request.
    const sluice = storage.run('a request', () => open('outside'))
    storage.run('a request', () => sluice.track('view'))
    await waitUntil(() => requestsOf('outside').length === 1, 'the event is sent after a second')
    for (let n = 0; n < 500; n++) storage.run('a request', () => sluice.track('view'))
    await storage.run('a request', () => sluice.flush())
    storage.run('a request', () => sluice.track('view'))
    await storage.run('a request', () => sluice.flush())
    expect(stores).toEqual([undefined, undefined, undefined])
  } finally {
    globalThis.fetch = fetch
  }
})

describe('an answer', () => {
  test('that does not come has the same events sent again, with the same ids and times', async () => {
    const faults = [{ kind: 'cut-before' }, { kind: 'cut-after' }, { kind: 'answer', status: 500 }] as const
    const left = [...faults]
    sdk.proxy.treat = () => left.shift() ?? { kind: 'forward' }
    const sluice = open('again')
    const receipts = [1, 2, 3].map((n) => sluice.track('view', { n }))
    expect(await sluice.flush({ timeoutMs: 30_000 })).toEqual({ sent: 3, pending: 0, rejected: 0 })
    const requests = requestsOf('again').map(({ events }) => events)
    expect(requests).toHaveLength(4)
    for (const events of requests) expect(events).toEqual(receipts.map((each) => expect.objectContaining(each)))
    expect(errors.map(({ code }) => code)).toEqual(['unavailable'])
  })

  test('that cannot come is reported with the reason, and without the key', async () => {
    const sluice = open('refused', { url: `http://127.0.0.1:${await findFreePort()}` })
    sluice.track('view')
    // The flush goes on until its end, after many more tries.
    void sluice.flush({ timeoutMs: 10_000 })
    await waitUntil(() => errors.length > 0, 'the error is reported')
    expect(errors.map(({ message }) => message)).toEqual(['Sluice did not take events 3 times (ECONNREFUSED); 1 wait'])
  })

  test('with Retry-After is waited for, also by flush, however often that is called', async () => {
    let isFirst = true
    sdk.proxy.treat = () => {
      if (!isFirst) return { kind: 'forward' }
      isFirst = false
      return { kind: 'answer', status: 429, headers: { 'Retry-After': '1' } }
    }
    const sluice = open('later')
    sluice.track('view')
    const began = performance.now()
    while (requestsOf('later').length === 0) await sluice.flush({ timeoutMs: 10 })
    for (let n = 0; n < 5; n++) await sluice.flush({ timeoutMs: 50 })
    expect(await sluice.flush()).toMatchObject({ sent: 1 })
    expect(performance.now() - began).toBeGreaterThanOrEqual(1_000)
  })

  test('413 splits the events until they fit', async () => {
    sdk.proxy.treat = ({ events }) => (events.length > 3 ? { kind: 'answer', status: 413 } : { kind: 'forward' })
    const sluice = open('halves')
    for (let n = 0; n < 10; n++) sluice.track('view', { n })
    expect(await sluice.flush()).toEqual({ sent: 10, pending: 0, rejected: 0 })
    expect(await sdk.gateway.stored('halves', 10)).toHaveLength(10)
  })

  test('413 for more events than the limit of the key is no pause, because all of the limit is left', async () => {
    const headers = {
      'X-RateLimit-Limit': '3',
      'X-RateLimit-Remaining': '3',
      'X-RateLimit-Reset': String(Math.ceil(Date.now() / 1_000) + 600),
    }
    sdk.proxy.treat = ({ events }) =>
      events.length > 3 ? { kind: 'answer', status: 413, headers } : { kind: 'forward' }
    const sluice = open('low-limit')
    for (let n = 0; n < 10; n++) sluice.track('view', { n })
    expect(await sluice.flush()).toEqual({ sent: 10, pending: 0, rejected: 0 })
  })

  test('429 for more events than the limit has left splits them, because other processes may use the key', async () => {
    const reset = String(Math.floor(Date.now() / 1_000))
    const headers = { 'X-RateLimit-Limit': '10', 'X-RateLimit-Remaining': '6', 'X-RateLimit-Reset': reset }
    sdk.proxy.treat = ({ events }) =>
      events.length > 6 ? { kind: 'answer', status: 429, headers } : { kind: 'forward' }
    const sluice = open('shared-limit')
    for (let n = 0; n < 10; n++) sluice.track('view', { n })
    void sluice.flush()
    await waitUntil(() => requestsOf('shared-limit').length >= 3, 'the events are sent again')
    expect(idsOf('shared-limit').map(({ length }) => length)).toEqual([10, 5, 5])
    expect(await sdk.gateway.stored('shared-limit', 10)).toHaveLength(10)
  })

  test('names the events that are refused, and the others are stored', async () => {
    const sluice = open('refused')
    sluice.track('good')
    const bad = sluice.track('x'.repeat(65))
    expect(await sluice.flush()).toEqual({ sent: 1, pending: 0, rejected: 1 })
    expect(errors).toEqual([expect.objectContaining({ code: 'rejected', event: bad })])
    expect(errors[0]?.message).toContain('event_type')
  })

  test('401 stops, keeps the events, says why without the key, and flush tries once more', async () => {
    const key = `${sdk.gateway.keys.prod.slice(0, -4)}xxxx`
    const sluice = open('unknown-key', { key })
    sluice.track('view')
    expect(await sluice.flush()).toEqual({ sent: 0, pending: 1, rejected: 0 })
    expect(errors.map(({ code, count }) => [code, count])).toEqual([['key_refused', 1]])
    expect(JSON.stringify(errors.map((error) => [error, String(error.stack)]))).not.toContain(key)
    expect(await sluice.flush()).toMatchObject({ pending: 1 })
    expect(requestsOf('unknown-key')).toHaveLength(2)
  })

  test('of a proxy neither refuses events nor stops, whatever its status is', async () => {
    const left = [400, 403, 401]
    sdk.proxy.treat = ({ events }) => {
      // A late request of the previous test may arrive here.
      if (!events.some(({ site_id: site }) => site === 'behind-proxy')) return { kind: 'forward' }
      const status = left.shift()
      return status === undefined ? { kind: 'forward' } : { kind: 'answer', status, body: { message: 'Forbidden' } }
    }
    const sluice = open('behind-proxy')
    sluice.track('view')
    sluice.track('view')
    expect(await sluice.flush({ timeoutMs: 30_000 })).toEqual({ sent: 2, pending: 0, rejected: 0 })
    expect(idsOf('behind-proxy').map(({ length }) => length)).toEqual([2, 2, 2, 2])
  })

  test.each([
    ['register no further site today', 'Rate limit exceeded. Retry after 60 seconds.', 'site-1001'],
    ['not send events of the site', 'Key is not allowed for this site', 'not-allowed'],
  ])('that the key may %s keeps the events, and the request is repeated', async (_, error, site) => {
    let refusals = 2
    sdk.proxy.treat = ({ events }) => {
      if (!events.some(({ site_id: each }) => each === site) || refusals-- <= 0) return { kind: 'forward' }
      const data = { accepted: 0, rejected: events.length, errors: events.map((_event, index) => ({ index, error })) }
      return { kind: 'answer', status: 400, body: { success: false, timestamp: Date.now(), data } }
    }
    const sluice = open(site)
    sluice.track('view')
    sluice.track('view')
    expect(await sluice.flush({ timeoutMs: 30_000 })).toEqual({ sent: 2, pending: 0, rejected: 0 })
    expect(idsOf(site).map(({ length }) => length)).toEqual([2, 2, 2])
    expect(errors).toEqual([])
  })

  test('with less left of the limit than the next request needs is a pause until the limit begins anew', async () => {
    const reset = Math.ceil(Date.now() / 1_000) + 2
    const sentAt: number[] = []
    sdk.proxy.treat = ({ events }) => {
      // A late request of the previous test may arrive here.
      if (!events.some(({ site_id: site }) => site === 'limit')) return { kind: 'forward' }
      const headers = { 'X-RateLimit-Remaining': '1', 'X-RateLimit-Reset': String(reset) }
      const isFirst = sentAt.push(Date.now()) === 1
      return isFirst
        ? { kind: 'answer', status: 202, headers, body: { success: true, timestamp: Date.now() } }
        : { kind: 'forward' }
    }
    const sluice = open('limit')
    sluice.track('view')
    sluice.track('view')
    await sluice.flush()
    sluice.track('view')
    sluice.track('view')
    expect(await sluice.flush()).toMatchObject({ sent: 2 })
    expect(sentAt).toHaveLength(2)
    expect(sentAt[1]).toBeGreaterThanOrEqual(reset * 1_000)
  })
})

describe('flush', () => {
  test('waits for what was tracked before it, while others are under way', async () => {
    sdk.proxy.treat = () => ({ kind: 'delay', ms: 100 })
    const sluice = open('flush')
    sluice.track('view')
    const first = sluice.flush()
    sluice.track('view')
    sluice.track('view')
    expect(await sluice.flush()).toMatchObject({ pending: 0 })
    expect(await first).toEqual({ sent: 1, pending: 0, rejected: 0 })
    expect(idsOf('flush').flat()).toHaveLength(3)
  })

  test('and close try again soon after a failure, also when many requests have failed before', async () => {
    sdk.proxy.treat = () => ({ kind: 'cut-before' })
    const sluice = open('outage')
    sluice.track('view')
    while (requestsOf('outage').length < 10) await sluice.flush({ timeoutMs: 10 })
    let left = 1
    sdk.proxy.treat = () => (left-- > 0 ? { kind: 'cut-before' } : { kind: 'forward' })
    expect(await sluice.close({ timeoutMs: 5_000 })).toEqual({ sent: 1, pending: 0, rejected: 0 })
  })

  test('ends after its time with what is pending', async () => {
    sdk.proxy.treat = () => ({ kind: 'cut-before' })
    const sluice = open('patience')
    sluice.track('view')
    expect(await sluice.flush({ timeoutMs: 50 })).toEqual({ sent: 0, pending: 1, rejected: 0 })
  })

  test('waits for the answer with a time that is longer than timers can be, and so does close', async () => {
    sdk.proxy.treat = () => ({ kind: 'delay', ms: 100 })
    const sluice = open('unlimited')
    sluice.track('view')
    expect(await sluice.flush({ timeoutMs: Infinity })).toEqual({ sent: 1, pending: 0, rejected: 0 })
    sluice.track('view')
    expect(await sluice.close({ timeoutMs: 2 ** 31 })).toEqual({ sent: 1, pending: 0, rejected: 0 })
  })
})

test('close ends a request that has no answer yet, and its events are pending', async () => {
  const silent = createServer().listen(0, '127.0.0.1')
  const connected = once(silent, 'connection')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const sluice = open('unanswered', { url: `http://127.0.0.1:${port}`, requestTimeoutMs: 600_000 })
  sluice.track('view')
  await sluice.flush({ timeoutMs: 0 })
  const [socket] = (await connected) as [Socket]
  // The socket may end or be reset.
  const ended = new Promise((resolve) => socket.resume().on('error', resolve).on('close', resolve))
  expect(await sluice.close({ timeoutMs: 0 })).toEqual({ sent: 0, pending: 1, rejected: 0 })
  await ended
  silent.close()
})

describe('a full queue', () => {
  const full = { queueEventsMax: 3 }

  test('drops new events, reports each, and sends sluice_dropped with their number and times', async () => {
    sdk.proxy.treat = () => ({ kind: 'cut-before' })
    const sluice = open('full', full)
    const receipts = Array.from({ length: 5 }, (_, n) => sluice.track('view', { n }))
    expect(errors.map(({ code, event }) => [code, event])).toEqual([
      ['queue_full', receipts[3]],
      ['queue_full', receipts[4]],
    ])
    sdk.proxy.treat = () => ({ kind: 'forward' })
    expect(await sluice.flush()).toMatchObject({ pending: 0, rejected: 0 })
    const rows = (await sdk.gateway.stored('full', 4)).map(({ row }) => row)
    const told = rows.find(({ event_type }) => event_type === 'sluice_dropped')
    const [from, to] = [receipts[3]?.timestamp, receipts[4]?.timestamp]
    expect(told?.properties).toEqual({ count: '2', from: String(from), to: String(to) })
  })

  test("holds track back with onFull: 'wait', and loses nothing", async () => {
    const sluice = createSluice({ ...optionsOf('wait', full), onFull: 'wait' as const })
    sdk.closeLater(sluice)
    sdk.proxy.treat = () => ({ kind: 'cut-before' })
    let tracked = 0
    const all = Array.from({ length: 6 }, async (_, n) => {
      await sluice.track('view', { n })
      tracked++
    })
    await waitUntil(() => tracked === 3, 'three events are queued')
    sdk.proxy.treat = () => ({ kind: 'forward' })
    while (tracked < 6) await sluice.flush()
    await Promise.all(all)
    await sluice.flush()
    expect(await sdk.gateway.stored('wait', 6)).toHaveLength(6)
    expect(errors.filter(({ code }) => code !== 'unavailable')).toEqual([])
  })

  test("with onFull: 'wait' takes as many events as fit when a large one has left", async () => {
    const sluice = createSluice({ ...optionsOf('large', { queueBytesMax: 32_768 }), onFull: 'wait' as const })
    sdk.closeLater(sluice)
    await sluice.track('large', { parts: Array.from({ length: 21 }, () => 'x'.repeat(1_500)) })
    const all = Promise.all(Array.from({ length: 6 }, () => sluice.track('small', { text: 'x'.repeat(2_000) })))
    await sluice.flush()
    await all
    await sluice.flush()
    expect(idsOf('large').map(({ length }) => length)).toEqual([1, 6])
  })
})

describe('a wrong clock', () => {
  test('is not what a machine has that slept before it read the answer', async () => {
    let sleptMs = 0
    const sluice = openSluice<Record<string, object>>(optionsOf('asleep'), () => Date.now() + sleptMs)
    sdk.closeLater(sluice)
    sdk.proxy.treat = () => {
      sleptMs = 8 * 3_600_000
      return { kind: 'forward' }
    }
    void sluice.track('early')
    await sluice.flush()
    const { timestamp } = await sluice.track('late')
    expect(Math.abs(timestamp - sleptMs - Date.now())).toBeLessThan(60_000)
    expect(errors).toEqual([])
  })

  test.each([
    ['three days ahead', 3 * 86_400_000],
    ['at its beginning, in 1970', 0],
  ])('%s costs no event: those that Sluice refuses get its time, once, and later ones have it', async (_, at) => {
    const site = `clock-${at}`
    const wall = at === 0 ? () => 1_000 : () => Date.now() + at
    const sluice = openSluice<Record<string, object>>(optionsOf(site), wall)
    sdk.closeLater(sluice)
    const before = Date.now()
    void sluice.track('early')
    await sluice.flush()
    void sluice.track('late')
    expect(await sluice.flush()).toMatchObject({ sent: 1, pending: 0, rejected: 0 })
    const rows = (await sdk.gateway.stored(site, 2)).map(({ row }) => row)
    expect(rows.map(({ event_type }) => event_type)).toEqual(['early', 'late'])
    for (const { timestamp } of rows) expect(Math.abs(timestamp - before)).toBeLessThan(60_000)
    expect(idsOf(site)[0]).toEqual(idsOf(site)[1])
    expect(errors.map(({ code }) => code)).toEqual(['clock_wrong'])
  })

  test('changes no timestamp that the caller gave', async () => {
    const sluice = open('own-time')
    const own = sluice.track('view', {}, { timestamp: Date.now() + 3 * 86_400_000 })
    expect(await sluice.flush()).toMatchObject({ rejected: 1 })
    expect(errors).toEqual([expect.objectContaining({ code: 'rejected', event: own })])
  })
})
