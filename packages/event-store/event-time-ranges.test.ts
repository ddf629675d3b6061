import { randomUUID } from 'node:crypto'
import { createClient } from '@clickhouse/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { eventLimits } from '@sluice/contracts/event-limits'
import type { Environment } from '@sluice/contracts/scopes'
import { openStatsDatabase, type StatsDatabase } from '../../tests/support/stats-database.ts'
import type { ClickHouseAddress } from './clickhouse/client.ts'
import { queryReader, type QueryRunner } from './clickhouse/query-runner.ts'
import { eventTimeRanges } from './event-time-ranges.ts'

/** Rows of a granule. The number is small, so that sites with some hundred events have many granules. */
const granuleRows = 64

let database: StatsDatabase
let runner: QueryRunner

beforeAll(async () => {
  database = await openStatsDatabase()
  const { owner, reader } = database
  const { rows } = await owner.query<{ statement: string }>('SHOW CREATE TABLE events')
  const statement = rows[0]?.statement ?? ''
  const granular = statement.replace(/index_granularity = \d+/, `index_granularity = ${granuleRows}`)
  expect(granular).not.toBe(statement)
  await owner.command('DROP TABLE events SYNC')
  await owner.command(granular)
  runner = queryReader(reader).runnerFor({ key: 'key', signal: new AbortController().signal, priority: 'interactive' })
})

afterAll(async () => {
  await database.drop()
})

beforeEach(async () => {
  await database.owner.command('TRUNCATE TABLE events')
})

interface RawEvent {
  siteId: string
  eventId: string
  environment: Environment
  timestamp: number
}

/** Stores events as one insert: a part for each month. */
async function insert(events: readonly RawEvent[]): Promise<void> {
  if (events.length === 0) return
  const rows = events.map(({ siteId, eventId, environment, timestamp }) =>
    JSON.stringify({
      site_id: siteId,
      event_id: eventId,
      environment,
      event_type: 'page_view',
      timestamp: new Date(timestamp).toISOString().slice(0, -1),
    }),
  )
  await database.owner.command(`INSERT INTO events FORMAT JSONEachRow ${rows.join('\n')}`)
}

async function erase(events: readonly RawEvent[]): Promise<void> {
  const ids = events.map(({ eventId }) => eventId)
  await database.owner.command('DELETE FROM events WHERE event_id IN {ids:Array(String)}', { params: { ids } })
}

/** The answer from the raw events, in plain code. */
function rangesOf(events: readonly RawEvent[]): [string, { first: number; last: number }][] {
  const siteIds = [...new Set(events.map(({ siteId }) => siteId))].toSorted()
  return siteIds.map((siteId) => {
    const times = events.filter((event) => event.siteId === siteId).map(({ timestamp }) => timestamp)
    return [siteId, { first: Math.min(...times), last: Math.max(...times) }]
  })
}

const sorted = (ranges: ReadonlyMap<string, unknown>) => [...ranges].toSorted(([a], [b]) => (a < b ? -1 : 1))

describe('the times of the first and last event', () => {
  const month = 31 * 86_400_000
  const siteIds = ['A', 'B', 'C', 'without events', '\u{1F600}']
  const event = fc.record({
    siteId: fc.constantFrom(...siteIds.filter((siteId) => siteId !== 'without events')),
    environment: fc.constantFrom<Environment>('prod', 'dev'),
    // Some partitions are years, others are months.
    timestamp: fc.oneof(
      fc.integer({ min: eventLimits.timestampMsMin, max: Date.UTC(1974, 0) }),
      fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2026, 0) + 3 * month }),
    ),
  })
  /** `erasedShares` is the share of each site's events that is erased at either end; 1 erases all of them. */
  const history = fc.record({
    inserts: fc.array(fc.array(event, { maxLength: 300 }), { minLength: 1, maxLength: 4 }),
    erasedShares: fc.array(fc.constantFrom(0, 0.1, 0.4, 1), { minLength: siteIds.length, maxLength: siteIds.length }),
    isMerged: fc.boolean(),
    rowsMax: fc.constantFrom(0, 0, 2 * granuleRows, undefined),
  })

  test('are those of the raw events, whatever was erased and however the rows lie', async () => {
    await fc.assert(
      fc.asyncProperty(history, async ({ inserts, erasedShares, isMerged, rowsMax }) => {
        await database.owner.command('TRUNCATE TABLE events')
        const stored = inserts.map((events) => events.map((each) => ({ ...each, eventId: randomUUID() })))
        for (const events of stored) await insert(events)
        if (isMerged) await database.owner.command('OPTIMIZE TABLE events FINAL')
        const erased = siteIds.flatMap((siteId, index) => {
          const events = stored.flat().filter((each) => each.siteId === siteId)
          const count = Math.ceil(events.length * (erasedShares[index] ?? 0))
          const ordered = events.toSorted((a, b) => a.timestamp - b.timestamp)
          return [...ordered.slice(0, count), ...ordered.slice(ordered.length - count)]
        })
        await erase(erased)
        const left = stored.flat().filter((each) => !erased.includes(each))
        const options = rowsMax === undefined ? {} : { rowsMax }
        expect(sorted(await eventTimeRanges(siteIds, runner, options))).toStrictEqual(rangesOf(left))
        expect(sorted(await eventTimeRanges(['B'], runner, options))).toStrictEqual(
          rangesOf(left.filter(({ siteId }) => siteId === 'B')),
        )
      }),
      { numRuns: 10, endOnFailure: true },
    )
  })

  test('are read of no site in no statement', async () => {
    const refusing: QueryRunner = { isSharded: false, query: () => Promise.reject(new Error('a statement')) }
    expect(await eventTimeRanges([], refusing)).toStrictEqual(new Map())
  })

  test('of sites whose ids are longer together than a parameter may be are read', async () => {
    const siteIds = Array.from({ length: 1_000 }, (_, n) => `${'\u{1F600}'.repeat(60)}${n}`)
    const [known = ''] = siteIds
    await database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT {site_id:String}, 'prod', 'view', fromUnixTimestamp64Milli(5000, 'UTC'), 'id', now64(3)`,
      { params: { site_id: known } },
    )
    expect(await eventTimeRanges(siteIds, runner)).toStrictEqual(new Map([[known, { first: 5_000, last: 5_000 }]]))
  })

  test('of more large sites than one statement asks for are read', async () => {
    const events = Array.from({ length: 40 }, (_, site) =>
      Array.from({ length: 4 }, (_, index): RawEvent => ({
        siteId: `site ${String(site).padStart(2, '0')}`,
        eventId: `${site}-${index}`,
        environment: 'prod',
        timestamp: Date.UTC(2026, 0) + site * 1_000 + index,
      })),
    ).flat()
    // A part for each site, so that each begins a granule.
    for (let from = 0; from < events.length; from += 4) await insert(events.slice(from, from + 4))
    const siteIds = [...new Set(events.map(({ siteId }) => siteId))]
    expect(sorted(await eventTimeRanges(siteIds, runner, { rowsMax: 0 }))).toStrictEqual(rangesOf(events))
  })
})

describe('the rows that are read for them', () => {
  const siteIds = [0, 1, 2, 3, 4, 5].map((site) => `site ${site}`)

  /** Stores events of six sites evenly over four months, each month in one part. */
  async function fill(events: number): Promise<void> {
    await database.owner.command('TRUNCATE TABLE events')
    await database.owner.command(
      `INSERT INTO events (site_id, timestamp, event_id, event_type)
       SELECT concat('site ', toString(number % ${siteIds.length})), toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + number * ${10_000_000 / events},
         toString(number), 'page_view' FROM numbers(${events})`,
    )
    await database.owner.command('OPTIMIZE TABLE events FINAL')
  }

  /** Rows that the statements read, from the index of the key and from the events. */
  async function countRowsRead(): Promise<{ index: number; events: number }> {
    const read = { index: 0, events: 0 }
    const { counting, close } = openCountingRunner(database.reader.address, (sql, rows) => {
      read[sql.includes('mergeTreeIndex') ? 'index' : 'events'] += rows
    })
    const ranges = await eventTimeRanges(siteIds, counting, { rowsMax: 10 * granuleRows })
    await close()
    expect(ranges.size).toBe(siteIds.length)
    return read
  }

  test.each([20_000, 200_000])('are of %d events two granules at each end of a site, and the index', async (events) => {
    await fill(events)
    const read = await countRowsRead()
    const [ends, parts] = [2, 4]
    expect(read.events).toBeLessThanOrEqual(siteIds.length * ends * 2 * granuleRows)
    expect(read.index).toBeLessThanOrEqual(events / granuleRows + 2 * parts)
  })
})

/** A runner that tells how many rows each statement has read. */
function openCountingRunner(
  { origin, username, password, database: name }: ClickHouseAddress,
  onRead: (sql: string, rows: number) => void,
): { counting: QueryRunner; close: () => Promise<void> } {
  const client = createClient({ url: origin, username, password, database: name })
  const counting: QueryRunner = {
    isSharded: false,
    query: async ({ sql, params }) => {
      const result = await client.query({
        query: sql,
        query_params: { ...params },
        format: 'JSON',
        clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
      })
      const { data, statistics } = await result.json<never>()
      onRead(sql, statistics?.rows_read ?? 0)
      return { rows: data, totals: undefined }
    },
  }
  return { counting, close: () => client.close() }
}
