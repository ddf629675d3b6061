import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { limitDescriptions, type LimitName, limits } from '../../../docs/limits.ts'
import { type Answer, startGateway, type TestGateway } from '../../../tests/support/gateway.ts'

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway()
})

afterAll(async () => {
  await gateway.stop()
})

const ndjson = { headers: { 'Content-Type': 'application/x-ndjson' } }
const event = (parts: object = {}): object => ({ site_id: 'limits', event_type: 'x', ...parts })

interface Outcome {
  status: number
  error?: string | undefined
}

/** Sends a request with the limited quantity at `size`. */
type Send = (size: number) => Promise<Outcome>

type Row =
  /** Each of these ways to send an event is accepted at the limit and rejected at `beyond`. */
  | { ways: Readonly<Record<string, Send>>; beyond: (limit: number) => number }
  /** A limit beyond which requests are still accepted: a test of its effect. */
  | { check: (limit: number) => Promise<void> }
  /** A limit that responses do not show: the files that test it. */
  | { testedIn: readonly string[] }

/** The outcome of one event, which in a batch may be an error of its own. */
function outcomeOf({ status, body }: Answer): Outcome {
  const [first] = (body.data as { errors?: { error: string }[] } | undefined)?.errors ?? []
  return { status, error: first?.error ?? body.error }
}

/** The ways to send one event, whose JSON `json` returns. */
function eventWays(json: (size: number) => string): Record<'alone' | 'in a list' | 'as a line', Send> {
  return {
    alone: async (size) => outcomeOf(await gateway.collect(json(size))),
    'in a list': async (size) => outcomeOf(await gateway.collectBatch(`{"events":[${json(size)}]}`)),
    'as a line': async (size) => outcomeOf(await gateway.collectBatch(json(size), ndjson)),
  }
}

const one = (limit: number): number => limit + 1

/** Characters of one to four bytes. The last one has two UTF-16 units. Each counts as one code point. */
const characters = { ASCII: 'x', 'two bytes': 'ü', 'three bytes': '✓', 'four bytes': '\u{1F600}' }

/** Every way to send a text with each kind of character. */
function textRow(json: (text: string) => object): Row {
  const ways = Object.entries(characters).flatMap(([kind, character]) =>
    Object.entries(eventWays((size) => JSON.stringify(json(character.repeat(size))))).map(
      ([way, send]): [string, Send] => [`${way}, ${kind}`, send],
    ),
  )
  return { ways: Object.fromEntries(ways), beyond: one }
}

/** A value that makes an event of `size` levels, including the event itself. */
function nested(size: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 1
  for (let level = size; level > 1; level--) value = wrap(value)
  return value
}

/** An event of `size` bytes with characters of two bytes, and one of one byte if needed. */
function eventOfBytes(size: number): string {
  const head = '{"site_id":"limits","event_type":"x","l":["'
  const left = size - head.length - 3
  return `${head}${'x'.repeat(left % 2)}${'ü'.repeat(Math.floor(left / 2))}"]}`
}

function numbered(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, n]))
}

/** Runs `send` with a fixed clock, so that limits are exact to a millisecond. */
async function withFixedClock(send: (now: number) => Promise<Outcome>): Promise<Outcome> {
  const now = Date.now()
  const clock = jest.spyOn(Date, 'now').mockReturnValue(now)
  try {
    return await send(now)
  } finally {
    clock.mockRestore()
  }
}

/** The type makes the compiler reject a limit without a row. */
const rows: Readonly<Record<LimitName, Row>> = {
  siteIdLengthMax: textRow((site_id) => event({ site_id })),
  eventTypeLengthMax: textRow((event_type) => event({ event_type })),
  sessionIdLengthMax: textRow((session_id) => event({ session_id })),
  userIdLengthMax: textRow((user_id) => event({ user_id })),
  anonymousIdLengthMax: textRow((anonymous_id) => event({ anonymous_id })),
  eventIdLengthMax: textRow((event_id) => event({ event_id })),
  urlLengthMax: textRow((url) => event({ url })),
  referrerLengthMax: textRow((referrer) => event({ referrer })),
  stringLengthMax: textRow((text) => event({ properties: { text } })),
  keyLengthMax: {
    ways: {
      ...(textRow((name) => event({ properties: { [name]: 1 } })) as { ways: Record<string, Send> }).ways,
      'of a nested one': async (size) =>
        outcomeOf(await gateway.collect(event({ properties: { a: { ['x'.repeat(size - 2)]: 1 } } }))),
      'of an unknown field': async (size) => outcomeOf(await gateway.collect(event({ ['x'.repeat(size)]: 1 }))),
    },
    beyond: one,
  },
  keysMax: {
    ways: {
      ...eventWays((size) => JSON.stringify(event({ properties: numbered(size) }))),
      nested: async (size) =>
        outcomeOf(await gateway.collect(event({ properties: { ...numbered(size - 20), nested: numbered(20) } }))),
      'with unknown fields': async (size) =>
        outcomeOf(await gateway.collect(event({ u0: 1, u1: 1, properties: numbered(size - 2) }))),
    },
    beyond: one,
  },
  depthMax: {
    ways: {
      ...eventWays((size) => JSON.stringify(event({ properties: nested(size, (a) => ({ a })) }))),
      lists: async (size) => outcomeOf(await gateway.collect(event({ l: nested(size, (a) => [a]) }))),
      'an unknown field': async (size) => outcomeOf(await gateway.collect(event({ u: nested(size, (a) => ({ a })) }))),
    },
    beyond: one,
  },
  futureMsMax: {
    ways: Object.fromEntries(
      (['alone', 'in a list', 'as a line'] as const).map((way) => [
        way,
        (size) => withFixedClock((now) => eventWays(() => JSON.stringify(event({ timestamp: now + size })))[way](size)),
      ]),
    ),
    beyond: one,
  },
  timestampMsMin: {
    ways: eventWays((timestamp) => JSON.stringify(event({ timestamp }))),
    beyond: (limit) => limit - 1,
  },
  eventBytesMax: { ways: eventWays(eventOfBytes), beyond: one },
  batchEventsMax: {
    ways: {
      'in a list': async (size) =>
        outcomeOf(await gateway.collectBatch({ events: Array.from({ length: size }, () => event()) })),
      'in a large list': async (size) =>
        outcomeOf(
          await gateway.collectBatch({ events: Array.from({ length: size }, () => event({ url: 'x'.repeat(1_000) })) }),
        ),
      'as lines': async (size) =>
        outcomeOf(await gateway.collectBatch(`${JSON.stringify(event())}\n`.repeat(size), ndjson)),
    },
    beyond: one,
  },
  batchBytesMax: {
    ways: {
      'in a list': async (size) => {
        const head = `{"events":[${JSON.stringify(event({ user_id: 'ü' }))}`
        return outcomeOf(await gateway.collectBatch(`${head}${' '.repeat(size - Buffer.byteLength(head) - 2)}]}`))
      },
      'as lines': async (size) => {
        const line = JSON.stringify(event({ user_id: 'ü' }))
        return outcomeOf(await gateway.collectBatch(`${line}${'\n'.repeat(size - Buffer.byteLength(line))}`, ndjson))
      },
    },
    beyond: one,
  },
  listedErrorsMax: {
    check: async (limit) => {
      for (const bad of [limit, limit + 1]) {
        const events = [...Array.from({ length: bad }, () => ({})), event()]
        const { status, body } = await gateway.collectBatch({ events })
        const { errors, rejected } = body.data as { errors: unknown[]; rejected: number }
        expect({ status, rejected, listed: errors.length }).toStrictEqual({ status: 202, rejected: bad, listed: limit })
      }
    },
  },
  newSitesPerDayMax: {
    ways: {
      'the last one alone': async (size) => {
        const key = gateway.keys.dev
        await registerSites(size - 1)
        return outcomeOf(await gateway.collect(event({ site_id: `alone-${size}` }), { key }))
      },
    },
    beyond: one,
  },
  copyWindowMs: {
    testedIn: ['tests/end-to-end/undated-copies.test.ts', 'packages/event-store/insert/event-inserter.test.ts'],
  },
}

/** Removes all sites, then registers `count` new ones with the development key. */
async function registerSites(count: number): Promise<void> {
  await gateway.postgres.db.deleteFrom('sites').execute()
  const events = Array.from({ length: count }, (_, n) => event({ site_id: `new-${count}-${n}` }))
  expect((await gateway.collectBatch({ events }, { key: gateway.keys.dev })).status).toBe(202)
}

const root = new URL('../../../', import.meta.url)

/** A pattern of the described error, in which parts in angle brackets match any text. */
function pattern(error: string): RegExp {
  const parts = error.split(/<\w+>/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.+')}$`)
}

test('every limit has a row', () => {
  expect(Object.keys(rows).sort()).toStrictEqual(Object.keys(limits).sort())
})

describe.each(Object.entries(rows) as [LimitName, Row][])('%s', (name, row) => {
  const limit = limits[name]
  const { beyond, inBatch } = limitDescriptions[name]

  if ('testedIn' in row) {
    test.each(row.testedIn)('is tested in %s', (file) => expect(existsSync(new URL(file, root))).toBe(true))
  } else if ('check' in row) {
    test('has the described effect at the limit and one beyond it', () => row.check(limit))
  } else {
    test.each(Object.entries(row.ways))('accepts the largest size when sent %s', async (_way, send) => {
      expect(await send(limit)).toStrictEqual({ status: 202, error: undefined })
    })

    test.each(Object.entries(row.ways))(
      'rejects one beyond with the described error when sent %s',
      async (way, send) => {
        if (typeof beyond === 'string') throw new Error('a limit that refuses nothing has a check of its own')
        const { status, error } = await send(row.beyond(limit))
        const isOfEvent = /^(in a list|as a line)/.test(way)
        // A batch without a valid event is 400, whatever the error of its event is.
        expect(status).toBe(isOfEvent && inBatch !== undefined ? 400 : beyond.status)
        expect(error).toMatch(pattern(isOfEvent && inBatch !== undefined ? inBatch : beyond.error))
      },
    )
  }
})
