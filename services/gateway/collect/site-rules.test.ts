import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { SiteStore } from '@sluice/access/sites'
import { siteStore } from '@sluice/postgres/sites'
import { waitUntil } from '@sluice/runtime/wait-until'
import {
  type ProxiedGateway,
  startGateway,
  startGatewayBehindProxy,
  type TestGateway,
} from '../../../tests/support/gateway.ts'
import { startStopwatch } from '../../../tests/support/stopwatch.ts'

const day = 86_400_000
const event = (siteId: string, parts: object = {}) => ({ site_id: siteId, event_type: 'x', ...parts })
const accepted = { success: true, timestamp: expect.any(Number) }
const refused = (error: string, data?: unknown) => ({
  success: false,
  error,
  timestamp: expect.any(Number),
  ...(data === undefined ? {} : { data }),
})
const noValidEvent = 'Invalid field: events holds no valid event, see data.errors'
const ndjson = { 'Content-Type': 'application/x-ndjson' }

describe('a key that is bound to sites', () => {
  let gateway: TestGateway
  let key: string

  beforeAll(async () => {
    gateway = await startGateway()
    key = await gateway.createKey({ siteIds: ['own', 'also own'] })
  })

  afterAll(async () => {
    await gateway.stop()
  })

  const notAllowed = 'Key is not allowed for this site'

  async function isRegistered(siteId: string): Promise<boolean> {
    return (await siteStore(gateway.postgres).find(siteId)) !== undefined
  }

  test('gets 202 for events of its sites', async () => {
    for (const siteId of ['own', 'also own']) {
      expect((await gateway.collect(event(siteId), { key })).status).toBe(202)
    }
    expect((await gateway.collectBatch({ events: [event('own'), event('also own')] }, { key })).status).toBe(202)
    await gateway.stored('own', 2)
  })

  test('gets 403 for an event of a foreign site, which is neither stored nor registered', async () => {
    await gateway.collect(event('known'))
    for (const siteId of ['known', 'nobody', 'OWN', 'own ']) {
      const { status, body } = await gateway.collect(event(siteId), { key })
      expect(status).toBe(403)
      expect(body).toStrictEqual(refused(notAllowed))
    }
    expect(await isRegistered('nobody')).toBe(false)
    await gateway.stored('known', 1)
    expect(await gateway.stored('nobody', 0)).toStrictEqual([])
  })

  test('gets 400 instead of 403 for an event that is invalid for another reason', async () => {
    const { status, body } = await gateway.collect({ site_id: 'known' }, { key })
    expect(status).toBe(400)
    expect(body).toStrictEqual(refused('Missing required field: event_type'))
  })

  test('gets 202 for a batch in which events of foreign sites are errors', async () => {
    const events = [
      event('mixed', { event_id: 'a' }),
      event('own', { user_id: 'batch' }),
      { site_id: 'mixed' },
      event('mixed'),
    ]
    const errors = [
      { index: 0, event_id: 'a', error: notAllowed },
      { index: 2, error: 'Missing required field: event_type' },
      { index: 3, error: notAllowed },
    ]
    const list = await gateway.collectBatch({ events }, { key })
    expect(list.status).toBe(202)
    expect(list.body).toStrictEqual({ ...accepted, data: { accepted: 1, rejected: 3, errors } })
    const lines = events.map((each) => JSON.stringify(each)).join('\n')
    const asLines = await gateway.collectBatch(lines, { key, headers: ndjson })
    expect(asLines.body).toStrictEqual({ ...accepted, data: { accepted: 1, rejected: 3, errors } })
    expect(await isRegistered('mixed')).toBe(false)
    expect(await gateway.stored('mixed', 0)).toStrictEqual([])
  })

  test('gets 400 with data.errors for a batch of foreign sites only', async () => {
    const { status, body } = await gateway.collectBatch({ events: [event('x'), event('y')] }, { key })
    expect(status).toBe(400)
    expect(body).toStrictEqual(
      refused(noValidEvent, {
        accepted: 0,
        rejected: 2,
        errors: [
          { index: 0, error: notAllowed },
          { index: 1, error: notAllowed },
        ],
      }),
    )
  })

  test('can use the sites of a changed binding within 2 s, and no others', async () => {
    const { keyId } = (await gateway.keyStore.list({ limit: 1, offset: 0 }, null)).keys[0] ?? { keyId: '' }
    expect((await gateway.collect(event('later'), { key })).status).toBe(403)
    await gateway.keyStore.update(keyId, { keyId: 'key_admin', siteIds: null }, () => ({ siteIds: ['later'] }))
    const elapsedMs = startStopwatch()
    const isApplied = async () =>
      (await gateway.collect(event('later'), { key })).status === 202 &&
      (await gateway.collect(event('own'), { key })).status === 403
    await waitUntil(isApplied, 'the new binding holds')
    expect(elapsedMs()).toBeLessThan(2_000)
  })
})

describe('a site with retention_days', () => {
  let gateway: TestGateway
  let sites: SiteStore

  beforeAll(async () => {
    gateway = await startGateway()
    sites = siteStore(gateway.postgres)
    await sites.create('kept-30', { retention_days: 30 }, 'key_admin')
  })

  afterAll(async () => {
    await gateway.stop()
  })

  const tooOld = (days: number) =>
    `Invalid field: timestamp must not be older than the retention_days of its site, ${days}`
  const timestampBefore = (ms: number) => ({ timestamp: Date.now() - ms })

  test('accepts younger and undated events and answers older ones with 400', async () => {
    for (const parts of [
      {},
      { event_id: 'e1' },
      timestampBefore(30 * day - 60_000),
      { timestamp: Date.now() + 60_000 },
    ]) {
      expect((await gateway.collect(event('kept-30', parts))).status).toBe(202)
    }
    // The second event takes the slow path of encodeEvent.
    for (const parts of [
      timestampBefore(30 * day + 1),
      { ...timestampBefore(30 * day + 1), country: 'de', properties: { a: { b: 1 } } },
    ]) {
      const { status, body } = await gateway.collect(event('kept-30', parts))
      expect(status).toBe(400)
      expect(body).toStrictEqual(refused(tooOld(30)))
    }
    expect(await gateway.stored('kept-30', 4)).toHaveLength(4)
  })

  test('accepts a batch in which older events are errors, unless all of them are', async () => {
    const old = event('kept-30', { event_id: 'old', ...timestampBefore(31 * day) })
    const others = [event('kept', timestampBefore(4_000 * day)), event('kept-30', { user_id: 'young' })]
    const { status, body } = await gateway.collectBatch({ events: [old, ...others, { ...old, event_id: '' }] })
    expect(status).toBe(202)
    expect(body.data).toStrictEqual({
      accepted: 2,
      rejected: 2,
      errors: [
        { index: 0, event_id: 'old', error: tooOld(30) },
        { index: 3, error: tooOld(30) },
      ],
    })
    const none = await gateway.collectBatch({ events: [old] })
    expect(none.status).toBe(400)
    expect(none.body).toStrictEqual(
      refused(noValidEvent, { accepted: 0, rejected: 1, errors: [{ index: 0, event_id: 'old', error: tooOld(30) }] }),
    )
  })

  test('applies a changed value within 2 s', async () => {
    const parts = timestampBefore(10 * day)
    expect((await gateway.collect(event('changed', parts))).status).toBe(202)
    for (const [retention_days, expected] of [
      [7, 400],
      [null, 202],
    ] as const) {
      await sites.update('changed', { retention_days })
      const elapsedMs = startStopwatch()
      const isApplied = async () => (await gateway.collect(event('changed', parts))).status === expected
      await waitUntil(isApplied, `an old event is ${expected}`)
      expect(elapsedMs()).toBeLessThan(2_000)
    }
  })
})

describe('without automatic registration', () => {
  let gateway: ProxiedGateway
  let sites: SiteStore

  beforeAll(async () => {
    gateway = await startGatewayBehindProxy({
      autoRegister: false,
      // The proxy cuts Postgres off at once, so that a long timeout delays no test. On a busy machine Postgres may be
      // slow.
      registerTimeoutMs: 30_000,
    })
    sites = siteStore(gateway.postgres)
    await sites.create('registered', {}, 'key_admin')
    await sites.create('late', {}, 'key_admin')
  })

  afterAll(() => gateway.stop())

  test('an event gets 202 for a registered site, and 404 for an unknown one, which is not registered', async () => {
    expect((await gateway.collect(event('registered'))).status).toBe(202)
    for (let n = 0; n < 2; n++) {
      const { status, body } = await gateway.collect(event('unknown'))
      expect(status).toBe(404)
      expect(body).toStrictEqual(refused('Site not found'))
    }
    expect(await sites.find('unknown')).toBeUndefined()
    expect(await gateway.stored('unknown', 0)).toStrictEqual([])
  })

  test('a batch gets 202 when only some of its events have unknown sites, which are errors', async () => {
    const { status, body } = await gateway.collectBatch({
      events: [event('unknown'), event('registered'), event('unknown too', { event_id: 'e' })],
    })
    expect(status).toBe(202)
    expect(body.data).toStrictEqual({
      accepted: 1,
      rejected: 2,
      errors: [
        { index: 0, error: 'Site not found' },
        { index: 2, event_id: 'e', error: 'Site not found' },
      ],
    })
  })

  test.each<[string, (siteId: string) => Promise<unknown>]>([
    ['registered by hand', (siteId) => sites.create(siteId, {}, 'key_admin')],
    ['named by a key', (siteId) => gateway.createKey({ siteIds: [siteId] })],
  ])('a site that is %s accepts events within 2 s', async (how, register) => {
    expect((await gateway.collect(event(how))).status).toBe(404)
    await register(how)
    const elapsedMs = startStopwatch()
    await waitUntil(async () => (await gateway.collect(event(how))).status === 202, 'it is known')
    expect(elapsedMs()).toBeLessThan(2_000)
  })

  test('without Postgres an event or batch gets 202 for a cached site and 503 for others', async () => {
    await gateway.proxy.cut()
    expect((await gateway.collect(event('registered'))).status).toBe(202)
    const answers = [
      await gateway.collect(event('late')),
      await gateway.collectBatch({ events: [event('registered'), event('late')] }),
    ]
    for (const { status, headers, body } of answers) {
      expect(status).toBe(503)
      expect(headers.get('retry-after')).toBe('1')
      expect(body).toStrictEqual(refused('Service temporarily unavailable'))
    }
    await gateway.proxy.mend()
    await waitUntil(async () => (await gateway.collect(event('late'))).status === 202, 'it is found')
  })
})
