import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { existsSync } from 'node:fs'
import { type LimitName, limitDescriptions, limits } from '../../../docs/limits.ts'
import { type Answer, startGateway, type TestGateway } from '../gateway.test-support.ts'

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

/** Sends something that takes `size` of what is limited. */
type Send = (size: number) => Promise<Outcome>

type Row =
  /** Accepted at the limit, refused one beyond it, by each of these ways. */
  | { ways: Readonly<Record<string, Send>>; beyond: (limit: number) => number }
  /** A limit that refuses nothing: what happens at it and beyond. */
  | { check: (limit: number) => Promise<void> }
  /** A limit that no answer shows. */
  | { testedIn: readonly string[] }

/** An answer to one event: in a batch it may be the event's error. */
function outcomeOf({ status, body }: Answer): Outcome {
  const [first] = (body.data as { errors?: { error: string }[] } | undefined)?.errors ?? []
  return { status, error: first?.error ?? body.error }
}

/** The ways that one event can come, its JSON being what `json` makes. */
function eventWays(json: (size: number) => string): Record<'alone' | 'in a list' | 'as a line', Send> {
  return {
    alone: async (size) => outcomeOf(await gateway.collect(json(size))),
    'in a list': async (size) => outcomeOf(await gateway.collectBatch(`{"events":[${json(size)}]}`)),
    'as a line': async (size) => outcomeOf(await gateway.collectBatch(json(size), ndjson)),
  }
}

const one = (limit: number): number => limit + 1

/** Characters of one to four bytes, the last of two UTF-16 units: each counts once. */
const characters = { ASCII: 'x', 'two bytes': 'ü', 'three bytes': '✓', 'four bytes': '\u{1F600}' }

/** Every way to send a text, of every kind of character. */
function textRow(json: (text: string) => object): Row {
  const ways = Object.entries(characters).flatMap(([kind, character]) =>
    Object.entries(eventWays((size) => JSON.stringify(json(character.repeat(size))))).map(
      ([way, send]): [string, Send] => [`${way}, ${kind}`, send],
    ),
  )
  return { ways: Object.fromEntries(ways), beyond: one }
}

/** Levels of objects, or of lists, of which the event is the first. */
function nested(size: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 1
  for (let level = size; level > 1; level--) value = wrap(value)
  return value
}

/** An event of so many bytes, of characters of two bytes but for one or none. */
function eventOfBytes(size: number): string {
  const head = '{"site_id":"limits","event_type":"x","l":["'
  const left = size - head.length - 3
  return `${head}${'x'.repeat(left % 2)}${'ü'.repeat(Math.floor(left / 2))}"]}`
}

function numbered(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, n]))
}

/** At a time that stands still, so that a millisecond counts. */
async function atNoon(send: (noon: number) => Promise<Outcome>): Promise<Outcome> {
  const noon = Date.now()
  const clock = jest.spyOn(Date, 'now').mockReturnValue(noon)
  try {
    return await send(noon)
  } finally {
    clock.mockRestore()
  }
}

/** A limit without a row here does not compile. */
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
        (size) => atNoon((noon) => eventWays(() => JSON.stringify(event({ timestamp: noon + size })))[way](size)),
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
  copyWindowMs: { testedIn: ['tests/end-to-end/undated-copies.test.ts', 'packages/clickhouse/insert-events.test.ts'] },
}

/** Registers so many new sites with the development key, which has none yet. */
async function registerSites(count: number): Promise<void> {
  await gateway.postgres.db.deleteFrom('sites').execute()
  const events = Array.from({ length: count }, (_, n) => event({ site_id: `new-${count}-${n}` }))
  expect((await gateway.collectBatch({ events }, { key: gateway.keys.dev })).status).toBe(202)
}

const root = new URL('../../../', import.meta.url)

/** The described error, in which parts in angle brackets stand for any text. */
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
    test.each(row.testedIn)('is tested in %s', (file) => {
      expect(existsSync(new URL(file, root))).toBe(true)
    })
  } else if ('check' in row) {
    test('at the limit and one beyond', () => row.check(limit))
  } else {
    test.each(Object.entries(row.ways))('%s: accepted at the limit', async (_way, send) => {
      expect(await send(limit)).toStrictEqual({ status: 202, error: undefined })
    })

    test.each(Object.entries(row.ways))('%s: one beyond it the answer is the described one', async (way, send) => {
      if (typeof beyond === 'string') throw new Error('a limit that refuses nothing has a check of its own')
      const { status, error } = await send(row.beyond(limit))
      const isOfEvent = /^(in a list|as a line)/.test(way)
      // A batch of this event alone has no good one, and is 400 whatever is wrong with it.
      expect(status).toBe(isOfEvent && inBatch !== undefined ? 400 : beyond.status)
      expect(error).toMatch(pattern(isOfEvent && inBatch !== undefined ? inBatch : beyond.error))
    })
  }
})
