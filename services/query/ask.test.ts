import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ClickHouse } from '@sluice/clickhouse/client'
import { statsLimits } from '@sluice/contracts/stats'
import { apiRequest } from '../../tests/api-request.ts'
import { everySite, hour, noon, openStatsDatabase, type StatsDatabase } from '../../tests/stats-database.ts'
import { asker, type Questions, questionsInTurn } from './ask.ts'
import { findEventTimes } from './event-times.ts'
import { statsHandler } from './stats/handler.ts'
import { createTurns } from './turns.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** ClickHouse with a limit that is sooner reached than ours. */
const limited = (limit: object): Pick<ClickHouse, 'query'> => ({
  query: (sql, params, options) =>
    database.reader.query(sql, params, { ...options, settings: { ...options?.settings, ...limit } }),
})

const ask = async (limit: object, query: Record<string, string> = {}): Promise<unknown> => {
  const siteId = await database.siteWith(Array.from({ length: 100 }, () => ({ at: 0, session_id: 's' })))
  const range = { start_date: String(noon), end_date: String(noon + hour) }
  const handle = statsHandler({ clickHouse: limited(limit), ...everySite() })
  return handle(apiRequest({ query: { site_id: siteId, metric: 'event_count', ...range, ...query } }))
}

describe('a question that is more than one may ask', () => {
  const tooLarge = {
    status: 400,
    message:
      'Invalid field: start_date asks for more than one answer may read: ask for a shorter range or fewer groups',
  }

  test('400 beyond the rows that may be read', async () => {
    await expect(ask({ max_rows_to_read: '10' }, { metric: 'unique_users' })).rejects.toMatchObject(tooLarge)
  })

  test('400 beyond the memory that one may take', async () => {
    const query = { metric: 'bounce_rate', group_by: 'path' }
    await expect(ask({ max_memory_usage: '1000' }, query)).rejects.toMatchObject(tooLarge)
  })

  test('503 beyond its time: it may have been the others', async () => {
    const clickHouse = limited({ max_execution_time: 0.1, timeout_before_checking_execution_speed: 0 })
    const question = asker(clickHouse, apiRequest())
    const sql = 'SELECT sum(sleepEachRow(0.1)) FROM numbers(20) SETTINGS max_block_size = 1'
    await expect(question({ sql, params: {} })).rejects.toMatchObject({
      status: 503,
      message: 'Service temporarily unavailable',
      retryAfterSeconds: 1,
    })
  })

  test('400 for more pairs of types and groups than a breakdown may hold', async () => {
    const count = statsLimits.entriesMax + 1
    await database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at, url)
       SELECT 'pairs', 'prod', 'view', at, toString(number), at, toString(number)
       FROM (SELECT number, fromUnixTimestamp64Milli({noon:Int64}, 'UTC') AS at FROM numbers({count:UInt32}))`,
      { params: { noon, count } },
    )
    const asked = { site_id: 'pairs', metric: 'event_count_by_type', group_by: 'url' }
    await expect(database.ask(asked)).rejects.toMatchObject({
      status: 400,
      message:
        'Invalid field: group_by must make at most 100000 pairs with event types: ask for a shorter range, longer buckets or a lower limit',
    })
    // By value alone they are 100 and the rest.
    const { breakdown } = await database.ask({ ...asked, metric: 'event_count' })
    expect(breakdown).toHaveLength(101)
  })
})

describe('questions in turn', () => {
  const asAnother = (keyId: string) => apiRequest({ credential: { ...apiRequest().credential, keyId } })

  test('those of a key wait for each other and not for those of another key', async () => {
    const gate = Promise.withResolvers<undefined>()
    const asked: string[] = []
    const gated: Pick<ClickHouse, 'query'> = {
      query: async (sql, params, options) => {
        asked.push(`${sql} ${String(options?.settings?.priority)}`)
        if (sql === 'SELECT 2') await gate.promise
        return database.reader.query(sql, params, options)
      },
    }
    const limits = { atOnce: 4, atOncePerHolder: 2, waitingPerHolder: 10, waitMs: 10_000 }
    const questions = questionsInTurn(gated, createTurns(limits))
    const many = [1, 2, 3].map(() => asker(questions, asAnother('many'))({ sql: 'SELECT 2', params: {} }))
    await asker(questions, asAnother('one'))({ sql: 'SELECT 1', params: {} })
    // ClickHouse prefers the lower number: the first of each key.
    expect(asked).toEqual(['SELECT 2 1', 'SELECT 2 2', 'SELECT 1 1'])
    gate.resolve(undefined)
    await Promise.all(many)
    expect(asked).toHaveLength(4)
  })

  test('when events of sites took place is asked in the name of who asks, within the limits', async () => {
    const names: unknown[] = []
    const questions: Questions = {
      query: (sql, params, { keyId, ...options }) => {
        names.push([keyId, options.settings.max_execution_time])
        return database.reader.query(sql, params, options)
      },
    }
    const siteIds = [await database.siteWith([{ at: 0 }, { at: 1 }]), await database.siteWith([])]
    const expected = { first: noon, last: noon + hour }
    for (const asked of [siteIds, siteIds.slice(0, 1)]) {
      const times = await findEventTimes(asked, questions, asAnother('key_1'))
      expect([...times]).toEqual([[siteIds[0], expected]])
    }
    expect(names).toEqual([
      ['key_1', 30],
      ['key_1', 30],
    ])
  })
})

test('a failure of ours stays one', async () => {
  const question = asker(database.reader, apiRequest())
  await expect(question({ sql: 'SELECT nothing FROM events', params: {} })).rejects.toMatchObject({ status: 500 })
})
