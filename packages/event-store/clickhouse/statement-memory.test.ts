import { setImmediate } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { openExportReaderAt } from '../exports/export-reader.ts'
import type { ClickHouse } from './client.ts'
import { ClickHouseError } from './errors.ts'
import { queryReader } from './query-runner.ts'
import { statementMemory } from './statement-memory.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** A server that gives these answers, the last one again and again, and counts how often it was asked. */
function serverOf(...answers: (number | Error)[]): Pick<ClickHouse, 'query'> & { asked: number } {
  const server = {
    asked: 0,
    query: () => {
      const answer = answers[Math.min(server.asked++, answers.length - 1)]
      return answer instanceof Error
        ? Promise.reject(answer)
        : Promise.resolve({ rows: [{ bytes: answer }] as never[], totals: undefined })
    },
  }
  return server
}

describe('the memory of a statement', () => {
  test.each([
    ['4 GB on a server with more than 5', 64e9, 4e9],
    ['4 GB on a server without a limit', 0, 4e9],
    ['four fifths of the memory of a smaller server', 3e9, 2.4e9],
  ])('is %s', async (_, server, expected) => expect(await statementMemory(serverOf(server))()).toBe(expected))

  test.each([
    ['away', new ClickHouseError(undefined, 'connect ECONNREFUSED')],
    ['forbidden', new ClickHouseError(497, 'Not enough privileges')],
  ])('is 4 GB while the server is %s, and is asked for again after a minute', async (_, failure) => {
    let now = 0
    const server = serverOf(failure, 2e9, 8e9)
    const memory = statementMemory(server, () => now)
    expect([await memory(), await memory()]).toStrictEqual([4e9, 4e9])
    expect(server.asked).toBe(1)
    now = 60_000
    expect([await memory(), await memory()]).toStrictEqual([1.6e9, 1.6e9])
    expect(server.asked).toBe(2)
  })

  test('is read once for statements that begin at the same time', async () => {
    const server = serverOf(2e9, 8e9)
    const memory = statementMemory(server)
    expect(await Promise.all(Array.from({ length: 20 }, memory))).toStrictEqual(Array.from({ length: 20 }, () => 1.6e9))
    expect(server.asked).toBe(1)
  })

  test('is read again in the background after ten minutes, and kept while the server is away', async () => {
    let now = 0
    const server = serverOf(2e9, new ClickHouseError(undefined, 'connect ECONNREFUSED'), 1e9, 4e9)
    const memory = statementMemory(server, () => now)
    /** The limits of two statements, the second one after an answer to the request that the first one has made. */
    const limitsAt = async (at: number) => {
      now = at
      const first = await memory()
      await setImmediate()
      return [first, await memory(), server.asked]
    }
    expect(await limitsAt(0)).toStrictEqual([1.6e9, 1.6e9, 1])
    expect(await limitsAt(599_999)).toStrictEqual([1.6e9, 1.6e9, 1])
    expect(await limitsAt(600_000)).toStrictEqual([1.6e9, 1.6e9, 2])
    expect(await limitsAt(659_999)).toStrictEqual([1.6e9, 1.6e9, 2])
    expect(await limitsAt(660_000)).toStrictEqual([1.6e9, 0.8e9, 3])
    expect(await limitsAt(1_259_999)).toStrictEqual([0.8e9, 0.8e9, 3])
    expect(await limitsAt(1_260_000)).toStrictEqual([0.8e9, 3.2e9, 4])
  })

  test('is known to the user that only reads', async () => {
    const sql = `SELECT toUInt64(value) AS bytes FROM system.server_settings WHERE name = 'max_server_memory_usage'`
    const { rows } = await database.owner.query<{ bytes: number }>(sql)
    const bytes = rows[0]?.bytes ?? 0
    expect(bytes).toBeGreaterThan(0)
    expect(await statementMemory(database.reader)()).toBe(Math.min(4e9, Math.floor(0.8 * bytes)))
  })
})

describe('a statement that needs more memory than the server has', () => {
  const sql = 'SELECT length(groupArray(number)) AS length FROM numbers(1000000)'

  test('fails as too large when it is an analysis', async () => {
    const caller = { key: 'key_test', signal: new AbortController().signal, priority: 'interactive' } as const
    const memoryMax = statementMemory(serverOf(1_000_000))
    const runner = queryReader(database.reader, { memoryMax }).runnerFor(caller)
    await expect(runner.query({ sql, params: {} })).rejects.toMatchObject({
      code: 'query_too_large',
      limit: 'resources',
    })
  })
})

test('statements of exports, and their files, have the limit of the server', async () => {
  const reader = openExportReaderAt(database.owner.address)
  const { signal } = new AbortController()
  const limit = await statementMemory(database.owner)()
  try {
    const sql = `SELECT toUInt64(getSetting('max_memory_usage')) AS c0`
    const { rows } = await reader.runnerFor(signal).query<{ c0: number }>({ sql, params: {} })
    expect(rows).toStrictEqual([{ c0: limit }])
    const columns = [{ name: 'bytes', kind: 'number' }] as const
    const file = await reader.read({ columns, sql, params: {} }, { format: 'ndjson', isCsvSafe: true }, signal)
    const chunks: Uint8Array[] = []
    for await (const chunk of file.bytes) chunks.push(chunk)
    expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual({ bytes: limit })
  } finally {
    await reader.close()
  }
})
