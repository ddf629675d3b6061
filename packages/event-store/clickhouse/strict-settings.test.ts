import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { withProfile } from '../../../tests/support/clickhouse-profile.ts'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { openEventInserterAt } from '../insert/event-inserter.ts'
import { type ClickHouse, openClickHouse } from './client.ts'
import { ClickHouseError } from './errors.ts'

const noon = Date.UTC(2024, 4, 15, 12)
const rows = 5_000

let database: TestClickHouse
let clickHouse: ClickHouse

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  clickHouse = openClickHouse(database.url)
  // Rows that are stored twice must stay visible: merges of the table would remove them.
  await clickHouse.command('SYSTEM STOP MERGES events')
})

afterAll(async () => {
  await clickHouse.close()
  await database.drop()
})

/** Settings of profiles that administrators make for queries by hand. */
const profiles: Readonly<Record<string, Readonly<Record<string, string | number>>>> = {
  'a limit': { limit: 10 },
  'an offset': { offset: 5 },
  'half of what takes too long': { timeout_overflow_mode: 'break' },
  'half of what reads too much': { read_overflow_mode: 'break', max_rows_to_read: 1000 },
  'half of what reads too much, elsewhere': { read_overflow_mode_leaf: 'break', max_rows_to_read_leaf: 1000 },
  'half of a set': { set_overflow_mode: 'break', max_rows_in_set: 10 },
  'half of a join': { join_overflow_mode: 'break', max_rows_in_join: 10 },
  'some of the groups': { group_by_overflow_mode: 'any', max_rows_to_group_by: 10 },
  'half of a sort': { sort_overflow_mode: 'break', max_rows_to_sort: 10 },
  'half of a DISTINCT': { distinct_overflow_mode: 'break', max_rows_in_distinct: 10 },
  'half of a result': { result_overflow_mode: 'break', max_result_rows: 10, max_block_size: 100 },
  'the rows that can be read': { input_format_allow_errors_num: 10_000, input_format_allow_errors_ratio: 1 },
}

const kinds = [
  ['dated', false],
  ['undated', true],
] as const

const profilesOfKinds = Object.keys(profiles).flatMap((profile) =>
  kinds.map(([kind, undated]) => ({ profile, kind, undated })),
)

test.each(profilesOfKinds)(
  'with $profile in the profile, $kind rows are all stored once or all refused',
  async ({ profile, undated }) => {
    const site = randomUUID()
    const lines = Array.from({ length: rows }, (_, n) =>
      JSON.stringify({
        site_id: site,
        environment: 'prod',
        event_type: 'page_view',
        timestamp: noon + (undated ? 0 : n * 1000),
        event_id: `id-${n}`,
        undated: undated ? 1 : 0,
        received_at: noon,
      }),
    )
    const payloads = [Buffer.from(`${lines.join('\n')}\n`)]
    const countStored = async () => {
      const { rows: found } = await clickHouse.query<{ stored: number; distinct: number }>(
        'SELECT count() AS stored, uniqExact(event_id) AS distinct FROM events WHERE site_id = {site:String}',
        { site },
      )
      return found[0]
    }
    const options = () => ({ queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 })

    // The time-out ends the statement at once.
    const forced = profile.includes('too long') ? { max_execution_time: '0.000001' } : {}
    const server = await withProfile(clickHouse.address, profiles[profile] ?? {}, forced)
    const strict = openEventInserterAt(server.address)
    const plain = openEventInserterAt(clickHouse.address)
    try {
      /** Resolves to true when the insert was acknowledged. */
      const insert = async () => {
        try {
          await strict.insert({ payloads, hasUndated: undated }, options())
          return true
        } catch (error) {
          expect(error).toBeInstanceOf(ClickHouseError)
          return false
        }
      }
      const whole = { stored: rows, distinct: rows }
      if (await insert()) expect(await countStored()).toStrictEqual(whole)
      // This insert stands for another writer, or for this one before the profile was changed.
      await plain.insert({ payloads, hasUndated: undated }, options())
      expect(await countStored()).toStrictEqual(whole)
      // The look-back of the next insert finds all rows.
      await insert()
      expect(await countStored()).toStrictEqual(whole)
    } finally {
      await strict.close()
      await plain.close()
      await server.close()
    }
  },
)

test('a batch with a row that can’t be read is refused, whatever errors a profile allows', async () => {
  const server = await withProfile(clickHouse.address, profiles['the rows that can be read'] ?? {})
  const inserter = openEventInserterAt(server.address)
  const batch = { payloads: [Buffer.from('{"site_id": 1, "surprise": 1}\n')], hasUndated: false }
  const options = { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 }
  await expect(inserter.insert(batch, options)).rejects.toMatchObject({ isBadData: true })
  await inserter.close()
  await server.close()
})

test('a query returns all its rows or fails', async () => {
  const server = await withProfile(clickHouse.address, { limit: 3, offset: 2, result_overflow_mode: 'break' })
  const { username, password, origin } = server.address
  const reader = openClickHouse(`${origin.replace('//', `//${username}:${password}@`)}/${server.address.database}`)
  expect((await reader.query('SELECT number FROM numbers(10)')).rows).toHaveLength(10)
  await reader.close()
  await server.close()
})
