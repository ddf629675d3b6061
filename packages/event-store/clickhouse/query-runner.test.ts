import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { createMetrics } from '@sluice/runtime/metrics'
import { hour, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { eventTimeRanges } from '../event-time-ranges.ts'
import { type ClickHouse, openClickHouseAt } from './client.ts'
import { type QueryCaller, queryReader } from './query-runner.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** A caller of interactive statements that stays until the end. */
const caller = (parts: Partial<QueryCaller> = {}): QueryCaller => ({
  key: 'key_test',
  signal: new AbortController().signal,
  priority: 'interactive',
  ...parts,
})

/** ClickHouse with a limit that is reached before the limits of the runner. */
const limited = (limit: object): Pick<ClickHouse, 'query'> => ({
  query: (sql, params, options) =>
    database.reader.query(sql, params, { ...options, settings: { ...options?.settings, ...limit } }),
})

describe('a statement that exceeds a limit', () => {
  test.each([
    ['rows that ClickHouse reads', { max_rows_to_read: '10' }, 'SELECT count() FROM numbers(100) WHERE number % 2 = 0'],
    ['memory', { max_memory_usage: '1000' }, 'SELECT groupArray(number) FROM numbers(1000000)'],
  ])('on %s throws QueryTooLargeError without the name of a field', async (_, limit, sql) => {
    await expect(queryReader(limited(limit)).runnerFor(caller()).query({ sql, params: {} })).rejects.toMatchObject({
      code: 'query_too_large',
      limit: 'resources',
      message: 'The result of the query is too large',
    })
  })

  test('on the bytes of its result throws QueryTooLargeError, whatever its rows', async () => {
    const sql = 'SELECT repeat(toString(number % 9), 2000) AS text FROM numbers(40000)'
    const runner = queryReader(database.reader).runnerFor(caller())
    for (const options of [{}, { rowsMax: 100_000 }]) {
      const result = runner.query({ sql, params: {} }, options)
      await expect(result).rejects.toMatchObject({ code: 'query_too_large', limit: 'bytes' })
    }
  })

  test('on time is retryable, because other statements may have taken the time', async () => {
    const clickHouse = limited({ max_execution_time: 0.1, timeout_before_checking_execution_speed: 0 })
    const sql = 'SELECT sum(sleepEachRow(0.1)) FROM numbers(20) SETTINGS max_block_size = 1'
    const metrics = createMetrics()
    await expect(
      queryReader(clickHouse, { metrics }).runnerFor(caller()).query({ sql, params: {} }),
    ).rejects.toMatchObject({
      code: 'unavailable',
      message: 'Service temporarily unavailable',
      retryAfterSeconds: 1,
    })
    expect(await metrics.getSingleMetricAsString('sluice_query_timeouts_total')).toMatch(/ 1$/)
  })

  test('on time of a client that waits no longer counts as given up', async () => {
    const hasty = openClickHouseAt(database.reader.address, { requestTimeoutMs: 200 })
    const metrics = createMetrics()
    const sql = 'SELECT sum(sleepEachRow(1)) FROM numbers(3) SETTINGS max_block_size = 1'
    await expect(queryReader(hasty, { metrics }).runnerFor(caller()).query({ sql, params: {} })).rejects.toMatchObject({
      code: 'unavailable',
    })
    expect(await metrics.getSingleMetricAsString('sluice_query_timeouts_total')).toMatch(/ 1$/)
    await hasty.close()
  })
})

describe('the queue of statements', () => {
  const sentStatements = (): { sent: string[]; client: Pick<ClickHouse, 'query'> } => {
    const sent: string[] = []
    return {
      sent,
      client: {
        query: (sql, params, options) => {
          sent.push(`${sql} ${String(options?.settings?.priority)}`)
          return database.reader.query(sql, params, options)
        },
      },
    }
  }

  test('makes the statements of a key wait for each other but not for those of another key', async () => {
    const gate = Promise.withResolvers<undefined>()
    const sent: string[] = []
    const gated: Pick<ClickHouse, 'query'> = {
      query: async (sql, params, options) => {
        sent.push(`${sql} ${String(options?.settings?.priority)}`)
        if (sql === 'SELECT 2') await gate.promise
        return database.reader.query(sql, params, options)
      },
    }
    const limits = { concurrencyMax: 4, concurrencyPerKeyMax: 2, queuedPerKeyMax: 10, queueTimeoutMs: 10_000 }
    const reader = queryReader(gated, { limits })
    const many = [1, 2, 3].map(() => reader.runnerFor(caller({ key: 'many' })).query({ sql: 'SELECT 2', params: {} }))
    await reader.runnerFor(caller({ key: 'one' })).query({ sql: 'SELECT 1', params: {} })
    // ClickHouse prefers the lower number: the first of each key.
    expect(sent).toEqual(['SELECT 2 1', 'SELECT 2 2', 'SELECT 1 1'])
    gate.resolve(undefined)
    await Promise.all(many)
    expect(sent).toHaveLength(4)
  })

  test('runs 16 statements, 4 of a key, holds 1,000 more of each key, and gives one up after 30 s', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] })
    try {
      const gate = Promise.withResolvers<{ rows: []; totals: undefined }>()
      let running = 0
      const gated = {
        query: () => {
          running++
          return gate.promise
        },
      } as Pick<ClickHouse, 'query'>
      const reader = queryReader(gated)
      const ask = (key: string) => reader.runnerFor(caller({ key })).query({ sql: 'SELECT 1', params: {} })
      const results: Promise<unknown>[] = []
      const runningAfter = async (count: number, key: string) => {
        for (let n = 0; n < count; n++) results.push(ask(key))
        await jest.advanceTimersByTimeAsync(0)
        return running
      }
      expect(await runningAfter(1_004, 'first')).toBe(4)
      await expect(ask('first')).rejects.toMatchObject({ internal: 'too many calls of the key wait' })
      for (const [n, key] of ['second', 'third', 'fourth', 'fifth'].entries())
        expect(await runningAfter(5, key)).toBe(Math.min(16, 4 * (n + 2)))
      const outcomes = Promise.allSettled(results)
      let hasTimedOut = false
      results[4]?.catch(() => {
        hasTimedOut = true
      })
      await jest.advanceTimersByTimeAsync(29_999)
      expect(hasTimedOut).toBe(false)
      await jest.advanceTimersByTimeAsync(1)
      expect(hasTimedOut).toBe(true)
      gate.resolve({ rows: [], totals: undefined })
      expect((await outcomes).filter(({ status }) => status === 'fulfilled')).toHaveLength(16)
    } finally {
      jest.useRealTimers()
    }
  })

  test('gives background statements a lower priority than every interactive one', async () => {
    const { sent, client } = sentStatements()
    const reader = queryReader(client)
    for (const priority of ['interactive', 'background'] as const) {
      await reader.runnerFor(caller({ priority })).query({ sql: 'SELECT 1', params: {} })
    }
    expect(sent).toEqual(['SELECT 1 1', 'SELECT 1 5'])
  })

  test('holds the statements that read the times of the events of sites', async () => {
    const times: unknown[] = []
    const client: Pick<ClickHouse, 'query'> = {
      query: (sql, params, options) => {
        times.push(options?.settings?.max_execution_time)
        return database.reader.query(sql, params, options)
      },
    }
    const siteIds = [await database.siteWith([{ at: 0 }, { at: 1 }]), await database.siteWith([])]
    const expected = { first: noon, last: noon + hour }
    for (const asked of [siteIds, siteIds.slice(0, 1)]) {
      const ranges = await eventTimeRanges(asked, queryReader(client).runnerFor(caller({ key: 'key_1' })))
      expect([...ranges]).toEqual([[siteIds[0], expected]])
    }
    // One statement finds the large sites, and one reads the others.
    expect(times).toEqual([30, 30, 30, 30])
  })
})

test('a statement that is wrong in itself fails as an internal error', async () => {
  const statement = { sql: 'SELECT nothing FROM events', params: {} }
  await expect(queryReader(database.reader).runnerFor(caller()).query(statement)).rejects.toMatchObject({
    code: 'internal',
  })
})

test('more rows than the caller accepts are refused, and name the limit', async () => {
  const statement = { sql: 'SELECT number FROM numbers(11)', params: {} }
  const runner = queryReader(database.reader).runnerFor(caller())
  await expect(runner.query(statement, { rowsMax: 10 })).rejects.toMatchObject({
    code: 'query_too_large',
    limit: 'rows',
  })
  expect((await runner.query(statement, { rowsMax: 11 })).rows).toHaveLength(11)
})

test('a statement whose caller has left is not sent', async () => {
  const signal = AbortSignal.abort()
  const statement = { sql: 'SELECT 1', params: {} }
  await expect(queryReader(database.reader).runnerFor(caller({ signal })).query(statement)).rejects.toMatchObject({
    code: 'unavailable',
  })
})
