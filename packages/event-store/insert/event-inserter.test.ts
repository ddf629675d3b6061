import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { EventRow } from '@sluice/contracts/event-columns'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { type ClickHouse, openClickHouse } from '../clickhouse/client.ts'
import { clickHouseCode, ClickHouseError } from '../clickhouse/errors.ts'
import { type EventInserter, type InsertOptions, openEventInserter, openEventInserterAt } from './event-inserter.ts'

const minute = 60_000
const noon = Date.UTC(2024, 4, 15, 12)

let database: TestClickHouse
let clickHouse: ClickHouse
let inserter: EventInserter
/** The site of the present test. */
let site: string

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  clickHouse = openClickHouse(database.url)
  inserter = openEventInserter(database.url)
  // Rows that are stored twice must stay visible: merges of the table would remove them.
  await clickHouse.command('SYSTEM STOP MERGES events')
})

afterAll(async () => {
  await inserter.close()
  await clickHouse.close()
  await database.drop()
})

beforeEach(() => {
  site = randomUUID()
})

function event(fields: Partial<EventRow> = {}): EventRow {
  return {
    site_id: site,
    environment: 'prod',
    event_type: 'page_view',
    timestamp: noon,
    event_id: randomUUID(),
    received_at: noon,
    ...fields,
  }
}

function undated(eventId: string, minutes: number): EventRow {
  return event({ event_id: eventId, timestamp: noon + minutes * minute, undated: 1 })
}

/** Stores rows as one batch; returns how many were new. */
async function insert(rows: readonly EventRow[], options: Partial<InsertOptions> = {}): Promise<number> {
  const { inserted } = await insertLines(
    rows.map((row) => JSON.stringify(row)),
    rows.some((row) => row.undated === 1),
    options,
  )
  return inserted
}

function insertLines(
  lines: readonly string[],
  hasUndated = false,
  options: Partial<InsertOptions> = {},
): ReturnType<EventInserter['insert']> {
  return inserter.insert(
    { payloads: lines.map((line) => Buffer.from(`${line}\n`)), hasUndated },
    { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000, ...options },
  )
}

async function countStored(siteId = site): Promise<{ stored: number; distinct: number }> {
  const { rows } = await clickHouse.query<{ stored: number; distinct: number }>(
    `SELECT count() AS stored, uniqExact(event_id, timestamp) AS distinct FROM events WHERE site_id = {siteId:String}`,
    { siteId },
  )
  return rows[0] ?? { stored: -1, distinct: -1 }
}

/** The times of the stored events, in minutes from noon. */
async function storedMinutes(eventId: string): Promise<number[]> {
  const { rows } = await clickHouse.query<{ at: number }>(
    `SELECT toUnixTimestamp64Milli(timestamp) AS at FROM events
     WHERE site_id = {site:String} AND event_id = {eventId:String} ORDER BY at`,
    { site, eventId },
  )
  return rows.map(({ at }) => (at - noon) / minute)
}

describe('dated events', () => {
  test('are stored once when a batch is repeated as a whole, in part or within another batch', async () => {
    const rows = Array.from({ length: 1000 }, (_, index) => event({ timestamp: noon + index * 37 }))
    expect(await insert(rows)).toBe(1000)
    expect(await insert(rows)).toBe(0)
    expect(await insert(rows.slice(300, 400))).toBe(0)
    const more = Array.from({ length: 10 }, (_, index) => event({ timestamp: noon + index * 37 }))
    expect(await insert([...rows.slice(900), ...more])).toBe(10)
    expect(await countStored()).toStrictEqual({ stored: 1010, distinct: 1010 })
  })

  test('are stored once for all copies in a batch, with all fields of the first one', async () => {
    const row = event({ properties: { n: '1' } })
    expect(await insert([row, row, { ...row, properties: { n: '2' } }])).toBe(1)
    expect(await insert([{ ...row, properties: { n: '3' } }])).toBe(0)
    const { rows } = await clickHouse.query('SELECT properties FROM events WHERE site_id = {site:String}', { site })
    expect(rows).toStrictEqual([{ properties: { n: '1' } }])
  })

  test('are different events when the same event_id has another time or site', async () => {
    const row = event()
    const ofOtherSite = { ...row, site_id: `${site}-2` }
    expect(await insert([row, { ...row, timestamp: noon + 1 }, ofOtherSite])).toBe(3)
    expect(await insert([{ ...row, timestamp: noon + 1 }, ofOtherSite, { ...row, timestamp: noon + 2 }])).toBe(1)
  })

  test('are stored once when a batch holds events of 150 months', async () => {
    const rows = Array.from({ length: 150 }, (_, month) =>
      event({ timestamp: Date.UTC(2020, month, 31 - (month % 3), 23, 59) }),
    )
    expect(await insert(rows)).toBe(150)
    expect(await insert(rows)).toBe(0)
  })

  test('keep their times from 1971 on and in the future', async () => {
    const times = [
      Date.UTC(1971, 0, 1),
      Date.UTC(1999, 11, 31, 23, 59, 59, 999),
      Date.UTC(2019, 11, 31),
      Date.UTC(2107, 0, 1),
    ]
    const rows = times.map((timestamp) => event({ timestamp }))
    expect(await insert(rows)).toBe(times.length)
    expect(await insert(rows)).toBe(0)
    const stored = await clickHouse.query<{ at: number }>(
      'SELECT toUnixTimestamp64Milli(timestamp) AS at FROM events WHERE site_id = {site:String} ORDER BY at',
      { site },
    )
    expect(stored.rows.map(({ at }) => at)).toStrictEqual(times)
  })

  test('are stored once each by any number of batches in any order', async () => {
    const moment = fc.constantFrom(0, 1, 999, 1000, 3_600_000)
    const sent = fc.record({ site: fc.constantFrom('a', 'b'), id: fc.constantFrom('1', '2', '3'), moment })
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(sent, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
        async (batches) => {
          const suffix = randomUUID()
          const sites = new Map<string, Set<string>>()
          for (const batch of batches) {
            const rows = batch.map(({ site: name, id, moment: at }) =>
              event({ site_id: name + suffix, event_id: id, timestamp: noon + at }),
            )
            const newRows = rows.filter((row) => {
              const known = sites.get(row.site_id) ?? new Set()
              sites.set(row.site_id, known)
              const size = known.size
              return known.add(`${row.event_id} ${row.timestamp}`).size > size
            })
            expect(await insert(rows)).toBe(newRows.length)
          }
          for (const [siteId, known] of sites) {
            expect(await countStored(siteId)).toStrictEqual({ stored: known.size, distinct: known.size })
          }
        },
      ),
      { numRuns: 25, interruptAfterTimeLimit: 120_000 },
    )
  })

  test('are compared only with the stored rows of the same seconds', async () => {
    await clickHouse.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT {site:String}, 'prod', 'page_view', time, toString(number), time
       FROM (SELECT number, fromUnixTimestamp64Milli({noon:Int64} + number * 1000, 'UTC') AS time FROM numbers(100000))`,
      { params: { site, noon } },
    )
    const rows = Array.from({ length: 10 }, (_, index) => 50_000 + index).map((number) =>
      JSON.stringify(event({ event_id: String(number), timestamp: noon + number * 1000 })),
    )
    const repeated = await insertLines(rows)
    expect(repeated.inserted).toBe(0)
    // The insert reads a granule of 8,192 rows, or two when the seconds lie at its edge, and the batch itself.
    expect(repeated.readRows).toBeLessThan(20_000)
  })
})

describe('undated events with an event_id', () => {
  test('are stored once when copies arrive within 15 minutes', async () => {
    expect(await insert([undated('x', 0)])).toBe(1)
    for (const minutes of [0, 1, 15, -15]) expect(await insert([undated('x', minutes)])).toBe(0)
    expect(await storedMinutes('x')).toStrictEqual([0])
  })

  test('are different events beyond 15 minutes', async () => {
    await insert([undated('x', 0)])
    expect(await insert([undated('x', 15 + 1 / minute)])).toBe(1)
    expect(await insert([undated('x', -15 - 1 / minute)])).toBe(1)
  })

  test('are different events beyond 15 minutes in one batch too', async () => {
    expect(await insert([undated('x', 20), undated('x', 0), undated('x', 10), undated('y', 10), undated('x', 0)])).toBe(
      3,
    )
    expect(await storedMinutes('x')).toStrictEqual([0, 20])
  })

  test('are left out again when they are sent alone after a batch that left them out', async () => {
    const batch = [undated('x', 0), undated('x', 10), undated('x', 20), undated('x', 30), undated('x', 40)]
    expect(await insert(batch)).toBe(3)
    for (const row of batch) expect(await insert([row])).toBe(0)
    expect(await storedMinutes('x')).toStrictEqual([0, 20, 40])
  })

  test('are different from an event with the same id and a timestamp of its own', async () => {
    await insert([event({ event_id: 'x', timestamp: noon - 1 })])
    expect(await insert([undated('x', 0)])).toBe(1)
    expect(await insert([event({ event_id: 'x', timestamp: noon + 1 })])).toBe(1)
  })

  test('share a batch with dated events of the same id', async () => {
    const dated = event({ event_id: 'x', timestamp: noon - 1 })
    expect(await insert([undated('x', 0), dated, undated('x', 10), dated, event({ event_id: 'y' })])).toBe(3)
    expect(await insert([event({ event_id: 'y' }), dated, undated('x', 15)])).toBe(0)
    expect(await insert([dated])).toBe(0)
  })

  test('are the dated event of the same id and millisecond', async () => {
    const dated = event({ event_id: 'x', timestamp: noon })
    expect(await insert([dated])).toBe(1)
    expect(await insert([undated('x', 0)])).toBe(0)
    expect(await insert([undated('y', 0), event({ event_id: 'y', timestamp: noon })])).toBe(1)
  })

  test('are never lost, stored twice or stored within 15 minutes, in any batches with dated ones and any order', async () => {
    const sent = fc.record({
      id: fc.constantFrom('1', '2'),
      minutes: fc.integer({ min: 0, max: 12 }).map((n) => n * 5),
      isDated: fc.boolean(),
    })
    /** Minutes at which dated events happen; undated ones never do. */
    const half = 0.5
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(sent, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 4 }),
        async (drawn) => {
          site = randomUUID()
          const batches = drawn.map((batch) =>
            batch.map(({ id, minutes, isDated }) =>
              isDated ? event({ event_id: id, timestamp: noon + (minutes + half) * minute }) : undated(id, minutes),
            ),
          )
          for (const batch of batches) await insert(batch)
          const all = batches.flat()
          for (const id of ['1', '2']) {
            const sentMinutes = all
              .filter((row) => row.event_id === id)
              .map(({ timestamp }) => (timestamp - noon) / minute)
            const stored = await storedMinutes(id)
            const isDated = (at: number) => !Number.isInteger(at)
            expect(stored.filter(isDated)).toStrictEqual(
              [...new Set(sentMinutes.filter(isDated))].toSorted((a, b) => a - b),
            )
            const kept = stored.filter((at) => !isDated(at))
            const gaps = kept.slice(1).map((at, index) => at - (kept[index] ?? 0))
            expect(gaps.filter((gap) => gap <= 15)).toStrictEqual([])
            const lost = sentMinutes.filter((at) => !isDated(at) && !kept.some((other) => Math.abs(other - at) <= 15))
            expect(lost).toStrictEqual([])
          }
          expect(await insert(all)).toBe(0)
          for (const row of all.slice(0, 2)) expect(await insert([row])).toBe(0)
        },
      ),
      { numRuns: 15, interruptAfterTimeLimit: 120_000 },
    )
  })
})

describe('a query_id', () => {
  /** Runs a query with `queryId` for up to 20 s; resolves when it runs. `ended` resolves at its end. */
  async function occupy(queryId: string): Promise<{ ended: Promise<unknown> }> {
    const url = new URL(clickHouse.address.origin)
    url.search = new URLSearchParams({ query_id: queryId }).toString()
    const ended = fetch(url, {
      method: 'POST',
      body: 'SELECT sleepEachRow(0.1) FROM numbers(200) SETTINGS max_block_size = 1 FORMAT Null',
      headers: { 'X-ClickHouse-User': clickHouse.address.username, 'X-ClickHouse-Key': clickHouse.address.password },
    }).then((response) => response.text())
    await waitUntil(async () => {
      const { rows } = await clickHouse.query<{ running: number }>(
        'SELECT count() AS running FROM system.processes WHERE query_id = {queryId:String}',
        { queryId },
      )
      return rows[0]?.running === 1
    }, 'the query runs')
    return { ended }
  }

  test('admits one insert at a time and refuses a second one, which may be retried', async () => {
    const queryId = randomUUID()
    const { ended } = await occupy(queryId)
    await expect(insert([event()], { queryId })).rejects.toMatchObject({
      serverCode: clickHouseCode.queryWithSameIdIsAlreadyRunning,
      retryable: true,
      code: 'unavailable',
    })
    expect(await insert([event()], { queryId, shouldReplaceRunning: true })).toBe(1)
    expect(await ended).toContain('QUERY_WAS_CANCELLED')
  })

  test('makes writers that replace each other store every row once', async () => {
    const batches = Array.from({ length: 10 }, (_, batch) =>
      Array.from({ length: 1_000 }, (_, index) => event({ timestamp: noon + batch * 1000 + (index % 900) })),
    )
    let refusals = 0
    /** Replaces a running insert at the first attempt, as after a claim, and not at the attempts after a failure. */
    const writer = async (queryId: string): Promise<void> => {
      for (const batch of batches) {
        for (let attempt = 0, isStored = false; !isStored; attempt += 1) {
          try {
            await insert(batch, { queryId, shouldReplaceRunning: attempt === 0 })
            isStored = true
          } catch (error) {
            if (!(error instanceof ClickHouseError) || !error.retryable) throw error
            refusals += 1
          }
        }
      }
    }
    const queryId = randomUUID()
    await Promise.all([writer(queryId), writer(queryId), writer(queryId)])
    expect(refusals).toBeGreaterThan(0)
    expect(await countStored()).toStrictEqual({ stored: 10_000, distinct: 10_000 })
  })
})

describe('a batch that can’t be stored', () => {
  test.each([
    ['no JSON', () => '{"site_id": "a", '],
    ['a time that is no number', () => JSON.stringify({ ...event(), timestamp: 'noon' })],
    ['an unknown environment', () => JSON.stringify({ ...event(), environment: 'test' })],
    ['an unknown type of property', () => JSON.stringify({ ...event(), property_types: { a: 'date' } })],
    ['an unknown field', () => JSON.stringify({ ...event(), surprise: 1 })],
  ])('fails permanently because of %s, and none of its rows is stored', async (_, badLine) => {
    const lines = [JSON.stringify(event()), badLine(), JSON.stringify(event())]
    await expect(insertLines(lines)).rejects.toMatchObject({ retryable: false, code: 'internal' })
    expect(await countStored()).toStrictEqual({ stored: 0, distinct: 0 })
  })

  test('may be retried when the server is unavailable', async () => {
    const unreachable = openEventInserterAt({ ...clickHouse.address, origin: 'http://127.0.0.1:1' })
    const batch = { payloads: [Buffer.from(JSON.stringify(event()))], hasUndated: false }
    const options = { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 1_000 }
    await expect(unreachable.insert(batch, options)).rejects.toMatchObject({ retryable: true, serverCode: undefined })
    await unreachable.close()
  })
})

describe('stored rows', () => {
  test('have the sent value in every field', async () => {
    const sent = event({
      environment: 'dev',
      session_id: 's',
      user_id: 'u',
      anonymous_id: 'a',
      url: 'https://example.com/?q=ä',
      referrer: 'https://example.org/',
      country: 'DE',
      device_type: 'tablet',
      properties: { text: '1', number: '1.5', yes: 'true', list: '[1,"2"]', empty: '' },
      property_types: { number: 'number', yes: 'boolean', list: 'array' },
      received_at: noon + 5,
    })
    await insert([sent])
    const { rows } = await clickHouse.query(
      `SELECT * REPLACE (toUnixTimestamp64Milli(timestamp) AS timestamp, toUnixTimestamp64Milli(received_at) AS received_at)
       FROM events WHERE site_id = {site:String}`,
      { site },
    )
    expect(rows).toStrictEqual([{ ...sent, undated: 0 }])
  })

  test('have empty values for absent fields, which count as no user, session or visitor', async () => {
    await insert([event({ session_id: '', properties: {} })])
    const { rows } = await clickHouse.query(
      `SELECT session_id, user_id, url, properties, session_key = 0 AND user_key = 0 AND visitor_key = 0 AS is_nobody
       FROM events WHERE site_id = {site:String}`,
      { site },
    )
    expect(rows).toStrictEqual([{ session_id: '', user_id: '', url: '', properties: {}, is_nobody: 1 }])
  })

  test('keep names like __proto__, quotes, backslashes, tabs, line ends and any Unicode', async () => {
    const unusualText = `'"\\\t\r\n\b\u2028\u{1F600} {site:String} é e\u0301`
    const names = ['__proto__', 'constructor', 'toString', 'a.b', unusualText]
    const properties = JSON.parse(
      `{${names.map((name) => `${JSON.stringify(name)}:${JSON.stringify(unusualText)}`).join()}}`,
    ) as never
    const rows = [
      event({ event_id: unusualText, session_id: unusualText, properties }),
      event({ event_id: "'" }),
      event({ event_id: '\\' }),
    ]
    expect(await insert(rows)).toBe(3)
    expect(await insert(rows)).toBe(0)
    const stored = await clickHouse.query<{ event_id: string; session_id: string; names: string[]; texts: string[] }>(
      `SELECT event_id, session_id, mapKeys(properties) AS names, mapValues(properties) AS texts
       FROM events WHERE site_id = {site:String} AND event_id = {strange:String}`,
      { site, strange: unusualText },
    )
    expect(stored.rows).toStrictEqual([
      { event_id: unusualText, session_id: unusualText, names, texts: names.map(() => unusualText) },
    ])
  })

  test('count a user, an anonymous id and a session of the same name as three visitors', async () => {
    await insert([
      event({ user_id: 'x' }),
      event({ anonymous_id: 'x' }),
      event({ session_id: 'x' }),
      event({ user_id: 'x', session_id: 'y' }),
    ])
    const { rows } = await clickHouse.query(
      'SELECT uniqExact(visitor_key) AS visitors FROM events WHERE site_id = {site:String}',
      { site },
    )
    expect(rows).toStrictEqual([{ visitors: 3 }])
  })
})

test('an event that is sent with a dev and a production key is one event in each environment, dated or undated', async () => {
  const dated = event()
  const undatedEvent = undated('u', 0)
  for (const environment of ['dev', 'prod'] as const) {
    expect(await insert([{ ...dated, environment }])).toBe(1)
    expect(await insert([{ ...dated, environment }])).toBe(0)
    expect(await insert([{ ...undatedEvent, environment }])).toBe(1)
    expect(await insert([{ ...undatedEvent, environment }])).toBe(0)
  }
  const both = event()
  expect(
    await insert([
      { ...both, environment: 'dev' },
      { ...both, environment: 'prod' },
    ]),
  ).toBe(2)
})
