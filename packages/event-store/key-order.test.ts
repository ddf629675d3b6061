import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { EventPosition } from '@sluice/contracts/events'
import { noon, openStatsDatabase, type StatsDatabase } from '../../tests/support/stats-database.ts'
import type { Statement } from './clickhouse/query-runner.ts'
import { type EventsSpec, eventsStatement } from './events/events-statement.ts'
import { observedPropertiesStatement } from './properties/observed-properties-statement.ts'

const count = 2_000_000
const gapMs = 1_000

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
  await database.owner.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, user_id, properties, received_at)
     SELECT 'large', 'prod', 'view', fromUnixTimestamp64Milli({noon:Int64} + number * ${gapMs}, 'UTC'),
            toString(number), toString(number % 1000), map('plan', 'pro', 'price', toString(number)), now64(3)
     FROM numbers(${count})`,
    { params: { noon } },
  )
})

afterAll(async () => {
  await database.drop()
})

const whole: EventsSpec = {
  siteId: 'large',
  environment: 'prod',
  start: noon,
  end: noon + count * gapMs,
  conditions: [],
  before: undefined,
  limit: 50,
}
const middle: EventPosition = { timestamp: noon + (count / 2) * gapMs, eventId: `${count / 2}`, environment: 'prod' }

test.each<[string, Partial<EventsSpec>, last: number]>([
  ['the first page', {}, count - 50],
  ['a page in the middle', { before: middle }, count / 2 - 50],
  [
    'a page of frequent events',
    { conditions: [{ property: 'user_id', operator: 'starts_with', value: '9' }] },
    1_999_950,
  ],
])('%s of two million events is read in the order of the key', async (_, spec, last) => {
  const { data, statistics } = await run(eventsStatement({ ...whole, ...spec }))
  expect(data).toHaveLength(50)
  expect(data.at(-1)).toMatchObject({ event_id: String(last) })
  // A few granules of 8,192 rows.
  expect(statistics.rows_read).toBeLessThan(100_000)
})

test('the properties of two million events are those of the latest half million, and no others are read', async () => {
  const { siteId, environment, end: now } = whole
  const { data, statistics } = await run(observedPropertiesStatement({ siteId, environment, now }))
  expect(data).toContainEqual(expect.objectContaining({ name: 'properties.plan', value: 'pro', events: 500_000 }))
  expect(statistics.rows_read).toBeLessThan(700_000)
})

interface Answer {
  data: unknown[]
  statistics: { rows_read: number }
}

/** Runs a statement by HTTP, for the statistics that the client leaves out. */
async function run({ sql, params }: Statement): Promise<Answer> {
  const { origin, username, password, database: name } = database.owner.address
  const query = new URLSearchParams({ database: name })
  for (const [parameter, value] of Object.entries(params)) query.set(`param_${parameter}`, String(value))
  const response = await fetch(`${origin}/?${query.toString()}`, {
    method: 'POST',
    headers: { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password },
    body: `${sql} FORMAT JSON`,
  })
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()) as Answer
}
