import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { type ClickHouse, openClickHouse } from '../clickhouse/client.ts'
import { tablePartitionOf } from './table-partition.ts'

let database: TestClickHouse
let clickHouse: ClickHouse

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  clickHouse = openClickHouse(database.url)
})

afterAll(async () => {
  await clickHouse.close()
  await database.drop()
})

test('a row is in the partition that the table gives it', async () => {
  const times = [
    Date.UTC(1971, 0),
    Date.UTC(1999, 11, 31, 23, 59, 59, 999),
    Date.UTC(2020, 0) - 1,
    Date.UTC(2020, 0),
    Date.UTC(2020, 1) - 1,
    Date.UTC(2026, 8, 30, 12),
  ]
  await clickHouse.command(`
    INSERT INTO events (site_id, environment, event_id, timestamp)
    SELECT 'site', 'prod', toString(time), fromUnixTimestamp64Milli(time, 'UTC')
    FROM (SELECT arrayJoin([${times.join(', ')}]) AS time)`)
  const { rows } = await clickHouse.query<{ id: string; part: string }>(
    'SELECT event_id AS id, _partition_id AS part FROM events',
  )
  const found = new Map(rows.map(({ id, part }) => [Number(id), Number(part)]))
  expect(found).toEqual(new Map(times.map((time) => [time, tablePartitionOf(time)])))
  expect(tablePartitionOf(NaN)).toBeNaN()
})
