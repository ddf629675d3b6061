import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { type ClickHouse, openClickHouseAt } from './client.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

test('a refusal of the user needs an operator, one of the statement does not', async () => {
  const stranger = openClickHouseAt({ ...database.reader.address, password: 'wrong' })
  const refused = { code: 'internal', retryable: false }
  await expect(stranger.query('SELECT 1')).rejects.toMatchObject({ ...refused, needsOperator: true })
  await stranger.close()
  await expect(database.reader.query('SELECT 1 FROM numbers(')).rejects.toMatchObject({
    ...refused,
    needsOperator: false,
  })
})

test('that ClickHouse can’t read all data passes, as no rows were sent that may be bad: its disk is full', async () => {
  const server = createServer((incoming, outgoing) => {
    incoming.resume()
    outgoing.writeHead(500, { 'X-ClickHouse-Exception-Code': '33' })
    outgoing.end(
      'Code: 33. DB::Exception: Cannot read all data. Bytes read: 7791. Bytes expected: 36671. (CANNOT_READ_ALL_DATA) (version 26.7.2.1)',
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const full = openClickHouseAt({ ...database.owner.address, origin })
  const options = { signal: new AbortController().signal, settings: {} }
  for (const call of [full.query('SELECT 1'), full.read('SELECT 1 FORMAT CSV', {}, options)]) {
    await expect(call).rejects.toMatchObject({
      serverCode: 33,
      code: 'unavailable',
      retryAfterSeconds: 1,
      isBadData: false,
    })
  }
  await full.close()
  await new Promise((resolve) => server.close(resolve))
})

test.each([
  [201, 'QUOTA_EXCEEDED'],
  [439, 'CANNOT_SCHEDULE_TASK'],
  [499, 'S3_ERROR'],
  [745, 'SERVER_OVERLOADED'],
])('the failure %i (%s) passes', async (serverCode, name) => {
  const server = createServer((incoming, outgoing) => {
    incoming.resume()
    outgoing.writeHead(500, { 'X-ClickHouse-Exception-Code': String(serverCode) })
    outgoing.end(`Code: ${serverCode}. DB::Exception: Try later. (${name}) (version 26.7.2.1)`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const failing = openClickHouseAt({ ...database.owner.address, origin })
  await expect(failing.query('SELECT 1')).rejects.toMatchObject({ serverCode, code: 'unavailable', retryable: true })
  await failing.close()
  await new Promise((resolve) => server.close(resolve))
})

test('names with escapes are those that ClickHouse sends, after names with a backslash', async () => {
  for (const name of ['\\', '"', '\n', '\\n', '\t']) {
    const { rows } = await database.reader.query<{ names: object }>(
      "SELECT map('first', 1, {name:String}, 2) AS names",
      { name },
    )
    expect(Object.keys(rows[0]?.names ?? {})).toStrictEqual(['first', name])
  }
})

test('a result is read whatever the length of the parameters', async () => {
  const sql =
    'SELECT cityHash64({text:String}), cityHash64({list:Array(String)}), {n:Int64}, {is_true:UInt8}, sum(arraySum({numbers:Array(UInt64)})) AS sum FORMAT TSV'
  const special = '\t\n\r\'"\\%&=+é𝄞--'
  const read = async (repeats: number): Promise<string> => {
    const params = {
      text: special,
      list: [special, ''],
      n: -5,
      is_true: true,
      numbers: Array.from({ length: repeats }, () => 1),
    }
    const lists = Array.from({ length: 20 }, (_, n) => [`unused_${n}`, `[${'1,'.repeat(repeats)}1]`])
    const { bytes, rows } = await database.reader.read(
      sql,
      { ...params, ...(Object.fromEntries(lists) as Record<string, string>) },
      { signal: new AbortController().signal, settings: {} },
    )
    expect(rows).toBe(1)
    return text(bytes)
  }
  const short = await read(10)
  expect(short).toMatch(/\t-5\t1\t10\n$/)
  expect(await read(40_000)).toBe(short.replace(/10\n$/, '40000\n'))
})

test('a statement whose caller left at once cuts no later statement on its connection', async () => {
  const { reader } = database
  await reader.query('SELECT 1')
  const left = new AbortController()
  const given = reader.query('SELECT 2', {}, { signal: left.signal })
  left.abort()
  await expect(given).rejects.toMatchObject({ code: 'unavailable' })
  // 4 s: more than any time after which the driver ends an idle connection.
  const slow = 'SELECT sum(sleepEachRow(0.5)) AS slept FROM numbers(8) SETTINGS max_block_size = 1'
  const { rows } = await reader.query<{ slept: number }>(slow)
  expect(rows).toEqual([{ slept: 0 }])
})

describe('a response of 200 that is not one of ClickHouse', () => {
  const withProxied = async (
    work: (proxied: ClickHouse) => Promise<void>,
    body = '<html>Welcome</html>',
  ): Promise<void> => {
    const server = createServer((incoming, outgoing) => {
      incoming.resume()
      outgoing.end(body)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const proxied = openClickHouseAt({ ...database.owner.address, origin })
    await work(proxied)
    await proxied.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  const retryable = { code: 'unavailable', retryable: true }

  test('says that a command has not run', () =>
    withProxied(async (proxied) => {
      await expect(proxied.command('TRUNCATE TABLE erasures')).rejects.toMatchObject(retryable)
    }))

  test.each(['', '{"data":[1'])('is no result of a query, even if it is %j', (body) =>
    withProxied(async (proxied) => {
      await expect(proxied.query('SELECT 1')).rejects.toMatchObject(retryable)
    }, body),
  )

  test('is no result to be read', () =>
    withProxied(async (proxied) => {
      const options = { signal: new AbortController().signal, settings: {} }
      await expect(proxied.read('SELECT 1 FORMAT CSV', {}, options)).rejects.toMatchObject(retryable)
    }))
})
