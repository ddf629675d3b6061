import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, test } from '@jest/globals'
import * as openTelemetry from '@opentelemetry/api'
import { useSdk } from '../../tests/sdk-node/use-sdk.ts'
import { createSluice } from './index.ts'

const sdk = useSdk()
const { errors, open, optionsOf, requestsOf } = sdk

describe('an event', () => {
  test('arrives with the id and the time that track has returned, and with its fields and properties', async () => {
    const sluice = open('fields')
    const before = Date.now()
    const fields = { user_id: 'u1', session_id: 's1', anonymous_id: 'a1', url: 'https://shop.example/', country: 'DE' }
    const receipt = sluice.track('order', { total: 12.5, paid: true }, fields)
    expect(receipt.event_id).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
    expect(receipt.timestamp).toBeGreaterThanOrEqual(before)
    expect(await sluice.flush()).toEqual({ sent: 1, pending: 0, rejected: 0 })
    const [stored] = await sdk.gateway.stored('fields', 1)
    expect(stored?.row).toMatchObject({ ...receipt, ...fields, event_type: 'order', environment: 'prod' })
    expect(stored?.row).toMatchObject({ properties: { total: '12.5', paid: 'true' } })
  })

  test('keeps an id and a time that are given', async () => {
    const sluice = open('given')
    const given = { event_id: 'order-7', timestamp: Date.now() - 5_000 }
    expect(sluice.track('order', {}, given)).toEqual(given)
    await sluice.flush()
    expect((await sdk.gateway.stored('given', 1))[0]?.row).toMatchObject(given)
  })

  test('is of the site and of the type, whatever else a caller in JavaScript has in the fields', async () => {
    const sluice = open('own-site')
    const copied = { site_id: 'other', event_type: 'copied', country: 'DE' }
    sluice.track('view', {}, copied)
    await sluice.flush()
    expect((await sdk.gateway.stored('own-site', 1))[0]?.row).toMatchObject({ event_type: 'view', country: 'DE' })
  })

  test('is what it was when track was called, whatever becomes of the object', async () => {
    const sluice = open('changed')
    const properties = { step: 1 }
    sluice.track('checkout', properties)
    properties.step = 2
    await sluice.flush()
    expect((await sdk.gateway.stored('changed', 1))[0]?.row.properties).toEqual({ step: '1' })
  })

  test('of page and of identify has the type, the user and the traits', async () => {
    const sluice = open('kinds')
    sluice.page({ title: 'Home' }, { url: 'https://shop.example/' })
    sluice.identify('ada', { plan: 'pro' })
    await sluice.flush()
    const rows = (await sdk.gateway.stored('kinds', 2)).map(({ row }) => row)
    expect(rows).toContainEqual(expect.objectContaining({ event_type: 'page_view', url: 'https://shop.example/' }))
    expect(rows).toContainEqual(
      expect.objectContaining({ event_type: 'identify', user_id: 'ada', properties: { plan: 'pro' } }),
    )
  })

  test('that can not be one is reported with the reason, and throws nothing', async () => {
    const sluice = open('invalid')
    const circular: Record<string, unknown> = {}
    circular.self = circular
    sluice.track('circular', circular)
    sluice.track('big', { count: 1n })
    sluice.track('')
    sluice.track('late', {}, { timestamp: Number.NaN })
    sluice.track('long', { text: 'x'.repeat(40_000) })
    // JavaScript callers pass what the types forbid.
    const untyped = sluice as unknown as { track(type: unknown, properties?: unknown, fields?: unknown): unknown }
    untyped.track(undefined, null, null)
    untyped.track(Symbol('type'))
    untyped.track(Object.create(null))
    expect(errors.map(({ code }) => code)).toEqual(Array.from({ length: 8 }, () => 'invalid_event'))
    expect(errors[4]?.message).toMatch(
      /^Invalid event long: the event has \d+ bytes of JSON, more than the 32768 of one event$/,
    )
    expect(errors[7]?.message).toBe('Invalid event type: the event type must be a string that is not empty')
    expect(await sluice.flush()).toEqual({ sent: 0, pending: 0, rejected: 0 })
  })
})

describe('the context', () => {
  test('follows the code into promises, and belongs to the events there', async () => {
    const sluice = open('context')
    await sluice.withContext({ session_id: 's1', user_id: 'ada' }, async () => {
      await new Promise((resolve) => setImmediate(resolve))
      sluice.withContext({ user_id: 'bob' }, () => sluice.track('inner'))
      sluice.track('outer', {}, { session_id: 's2' })
      expect(sluice.context()).toEqual({ session_id: 's1', user_id: 'ada' })
    })
    expect(sluice.context()).toEqual({})
    await sluice.flush()
    const sent = requestsOf('context').flatMap(({ events }) => events)
    expect(sent).toContainEqual(expect.objectContaining({ event_type: 'inner', session_id: 's1', user_id: 'bob' }))
    expect(sent).toContainEqual(expect.objectContaining({ event_type: 'outer', session_id: 's2', user_id: 'ada' }))
  })

  const baggage = 'other=1;ttl=2, sluice.session_id=s%201 , sluice.anonymous_id=a1;p=2'

  test('of a request comes from its baggage, with Express and with Fetch handlers', async () => {
    const sluice = open('baggage')
    const expected = { session_id: 's 1', anonymous_id: 'a1' }
    const seen = new Promise((resolve) => {
      sluice.middleware()({ headers: { baggage } }, {}, () => resolve(sluice.context()))
    })
    expect(await seen).toEqual(expected)
    const handler = sluice.middleware(async (request: Request, id: number) => {
      await request.text()
      return Response.json({ id, ...sluice.context() })
    })
    const response = await handler(new Request('http://localhost/', { headers: { baggage } }), 7)
    expect(await response.json()).toEqual({ id: 7, ...expected })
  })

  test.each([
    ['without baggage', ''],
    ['with a NUL in an id', 'sluice.session_id=%00'],
    ['with an id that is too long', `sluice.session_id=${'x'.repeat(65)}`],
    ['with an escape that is none', 'sluice.session_id=%E0%A4%A'],
    ['with too much baggage', `sluice.session_id=s1,x=${'x'.repeat(9_000)}`],
  ])('of a request %s is empty', (_, header) => {
    const sluice = open('no-baggage')
    sluice.middleware()({ headers: { baggage: header } }, {}, () => {
      expect(sluice.context()).toEqual({})
    })
    expect.assertions(1)
  })

  test('of an OpenTelemetry span is the property trace_id', async () => {
    const storage = new AsyncLocalStorage<openTelemetry.Context>()
    openTelemetry.context.setGlobalContextManager({
      active: () => storage.getStore() ?? openTelemetry.ROOT_CONTEXT,
      with: (context, fn, self, ...rest) => storage.run(context, () => fn.apply(self, rest)),
      bind: (_context, target) => target,
      enable: () => {
        throw new Error('not used')
      },
      disable: () => {
        throw new Error('not used')
      },
    })
    const traceId = '0af7651916cd43dd8448eb211c80319c'
    const span = openTelemetry.trace.wrapSpanContext({ traceId, spanId: 'b7ad6b7169203331', traceFlags: 1 })
    const sluice = open('trace')
    openTelemetry.context.with(openTelemetry.trace.setSpan(openTelemetry.ROOT_CONTEXT, span), () => {
      sluice.track('traced', { n: 1 })
    })
    sluice.track('untraced')
    await sluice.flush()
    const sent = requestsOf('trace').flatMap(({ events }) => events)
    expect(sent.map(({ properties }) => properties)).toEqual([{ trace_id: traceId, n: 1 }, undefined])
  })
})

describe('createSluice', () => {
  test('names every wrong option at once, and not the key', () => {
    const wrong = { url: 'ftp://in.example', key: 'svc prod secret', site: '', queueEventsMax: 0, onFull: 'drop' }
    const create = () => createSluice({ ...wrong, onFull: JSON.parse('"drop"') as 'reject' })
    for (const name of ['url', 'key', 'site', 'queueEventsMax', 'onFull']) expect(create).toThrow(`${name} must be`)
    expect(create).not.toThrow('secret')
  })

  test.each([
    ['has nothing after the prefix', () => 'svc_prod_'],
    ['has the end of a line', (key: string) => `${key}\n`],
    ['has another prefix', (key: string) => key.replace('svc_', 'abc_')],
    ['is the placeholder of the documentation', () => 'svc_prod_…'],
  ])('refuses a key that %s', (_, spoil) => {
    const key = spoil(`svc_prod_${'a'.repeat(34)}`)
    expect(() => createSluice({ ...optionsOf('x'), key })).toThrow(
      new TypeError('createSluice: key must be an API key, svc_prod_…'),
    )
  })

  test('names an option that there is not, such as a misspelt one', () => {
    const misspelt = { ...optionsOf('x'), spol: '/tmp/spool', toString: 1 }
    expect(() => createSluice(misspelt)).toThrow(
      new TypeError('createSluice: spol is not an option; toString is not an option'),
    )
  })

  test('without options names those that it needs', () => {
    const create = createSluice as unknown as () => void
    for (const name of ['url', 'key', 'site']) expect(create).toThrow(`${name} must be`)
  })

  // Node's own recursive mkdir never ends in a folder of /proc that is not there.
  test.each(['/dev/null/spool', '/proc/nope/spool'])('refuses %s as a spool, which can not be a folder', (spool) => {
    expect(() => createSluice(optionsOf('x', { spool }))).toThrow("createSluice: spool can't be used")
  })
})

test('an onError that throws does not make track throw', () => {
  const sluice = open('throwing', {
    onError: () => {
      throw new Error('mistake')
    },
  })
  expect(() => sluice.track('')).not.toThrow()
})

test('after close an event is reported, and what was in memory alone, too', async () => {
  sdk.proxy.treat = () => ({ kind: 'cut-before' })
  const sluice = open('closed')
  sluice.track('view')
  expect(await sluice.close({ timeoutMs: 50 })).toEqual({ sent: 0, pending: 1, rejected: 0 })
  sluice.track('view')
  expect(errors.filter(({ code }) => code === 'closed')).toHaveLength(2)
})
