import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { withProfile } from '../../../tests/support/clickhouse-profile.ts'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { type ClickHouse, openClickHouse } from '../clickhouse/client.ts'
import { ClickHouseError } from '../clickhouse/errors.ts'
import { type EventInserter, openEventInserter, openEventInserterAt } from './event-inserter.ts'

const noon = Date.UTC(2024, 4, 15, 12)

let database: TestClickHouse
let clickHouse: ClickHouse
let inserter: EventInserter

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  clickHouse = openClickHouse(database.url)
  inserter = openEventInserter(database.url)
})

afterAll(async () => {
  await inserter.close()
  await clickHouse.close()
  await database.drop()
})

function line(fields: object = {}): Buffer {
  return Buffer.from(
    JSON.stringify({
      site_id: 'a',
      environment: 'prod',
      event_type: 'page_view',
      timestamp: noon,
      event_id: randomUUID(),
      received_at: noon,
      ...fields,
    }),
  )
}

/** A line with these bytes instead of its event type. */
function lineWith(bytes: readonly number[]): Buffer {
  const [before = '', after = ''] = line({ event_type: '#' }).toString().split('#')
  return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
}

/** Lines that a block from a foreign producer may hold. */
const unusualLines: Readonly<Record<string, Buffer>> = {
  'a good line': line({ properties: { a: '1' }, property_types: { a: 'number' } }),
  'half a line': line().subarray(0, 40),
  'an open string at its end': Buffer.from('{"site_id":"a'),
  'no JSON': Buffer.from('hello {"a":"b"}'),
  'an array': Buffer.from('[1,2]'),
  null: Buffer.from('null'),
  'an empty object': Buffer.from('{}'),
  nothing: Buffer.from(''),
  'two objects': Buffer.concat([line(), line()]),
  'something behind the object': Buffer.concat([line(), Buffer.from(' x')]),
  'binary rubbish': Buffer.from([0, 255, 1, 254, 92, 34]),
  'text for a time': line({ timestamp: 'noon' }),
  'a time with a fraction': line({ timestamp: 1.5 }),
  'a time beyond 64 bits': Buffer.from(
    line({ timestamp: 1 })
      .toString()
      .replace(':1,', `:${'9'.repeat(30)},`),
  ),
  'the largest time': Buffer.from(line({ timestamp: 1 }).toString().replace(':1,', ':9223372036854775807,')),
  'no time': line({ timestamp: undefined }),
  'an unknown environment': line({ environment: 'test' }),
  'no environment': line({ environment: undefined }),
  'an unknown type of property': line({ property_types: { a: 'date' } }),
  'text for properties': line({ properties: 'x' }),
  'properties within properties': line({ properties: { a: { b: 1 } } }),
  'nesting without end': Buffer.from(line({ properties: '#' }).toString().replace('"#"', '['.repeat(20_000))),
  'an object for text': line({ event_type: { a: 1 } }),
  'an unknown field': line({ surprise: 1 }),
  'a field called n': line({ n: 1 }),
  'a field twice': Buffer.from(line().toString().replace('{', '{"site_id":"b",')),
  'invalid UTF-8': lineWith([0xff, 0xfe, 0xc3]),
  'NUL and line ends within text': lineWith([...Buffer.from('\\u0000\\n\\r')]),
  'half a surrogate pair': lineWith([...Buffer.from('\\ud83d')]),
  '1 MiB in one field': line({ url: 'x'.repeat(2 ** 20) }),
}

async function isStoredAlone(row: Buffer): Promise<boolean> {
  try {
    const { inserted } = await inserter.insert(
      { payloads: [row, Buffer.from('\n')], hasUndated: false },
      { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 },
    )
    return inserted === 1
  } catch (error) {
    // The writer looks for bad rows after these codes only, so every bad row must cause one of them.
    expect(error).toBeInstanceOf(ClickHouseError)
    expect(error).toMatchObject({ isBadData: true, retryable: false })
    return false
  }
}

const findBadRows = async (lines: readonly Buffer[]) => inserter.findBadRows(lines, { timeoutMs: 20_000 })

test.each(Object.entries(unusualLines))(
  '%s is found among good rows exactly if an insert of this row alone fails',
  async (name, row) => {
    const isStored = await isStoredAlone(row)
    const bad = await findBadRows([line(), row, line()])
    // Two objects on one line are stored, but the block then has a row more than its headers say.
    if (isStored && name !== 'two objects') expect(bad).toStrictEqual([])
    else expect(bad).toMatchObject([{ index: 1, text: expect.stringMatching(/./) as unknown }])
  },
)

test('one search finds all bad rows among any other rows', async () => {
  const expected: number[] = []
  const lines = Object.values(unusualLines).flatMap((row) => [row, line(), row])
  for (const [index, row] of lines.entries()) if ((await findBadRows([row])).length > 0) expected.push(index)
  expect((await findBadRows(lines)).map(({ index }) => index)).toStrictEqual(expected)
  expect(expected.length).toBeGreaterThan(20)
})

test('a bad row has the error text and code of ClickHouse', async () => {
  expect(
    await findBadRows([line(), line({ environment: 'test' }), line({ surprise: 1 }), Buffer.from('x')]),
  ).toStrictEqual([
    { index: 1, reason: 'refused', code: 691, text: expect.stringContaining("'test'") as unknown },
    { index: 2, reason: 'refused', code: 117, text: expect.stringContaining('surprise') as unknown },
    { index: 3, reason: 'not_json', text: 'the line is no JSON object' },
  ])
})

test('a whole batch of bad rows costs a bounded number of queries', async () => {
  const lines = Array.from({ length: 20_000 }, (_, n) => line({ timestamp: n % 2 === 0 ? 'noon' : noon }))
  const bad = await findBadRows(lines)
  expect(bad.map(({ index }) => index)).toStrictEqual(Array.from({ length: 10_000 }, (_, n) => 2 * n))
  expect(bad.every(({ code }) => code === 27)).toBe(true)
})

describe('the search for bad rows', () => {
  test('finds none when the table is missing', async () => {
    const inserterWithoutTable = openEventInserterAt({ ...clickHouse.address, database: 'default' })
    expect(await inserterWithoutTable.findBadRows([line()], { timeoutMs: 20_000 })).toStrictEqual([])
    await inserterWithoutTable.close()
  })

  test.each([
    ['no server', { origin: 'http://127.0.0.1:1' }, undefined],
    ['a wrong password', { password: 'wrong' }, 516],
  ])('rejects with %s', async (_, change, code) => {
    const failingInserter = openEventInserterAt({ ...clickHouse.address, ...change })
    await expect(failingInserter.findBadRows([line({ environment: 'x' })], { timeoutMs: 5_000 })).rejects.toMatchObject(
      {
        serverCode: code,
      },
    )
    await failingInserter.close()
  })
})

describe('the search for bad rows on a server that shortens results', () => {
  const lines = Array.from({ length: 200 }, (_, n) => line(n % 2 === 0 ? {} : { timestamp: 'noon' }))
  const shortened = [
    ['a limit', { limit: '10' }],
    ['an offset', { offset: '5' }],
    ['half of what is read', { read_overflow_mode: 'break', max_rows_to_read: '10', max_block_size: '10' }],
  ] as const

  test.each(shortened)('finds all bad rows or fails with %s in the profile', async (_, settings) => {
    const server = await withProfile(clickHouse.address, settings)
    const strictInserter = openEventInserterAt(server.address)
    // A profile's limit of read rows makes the statement fail, which the writer retries.
    const found = await strictInserter.findBadRows(lines, { timeoutMs: 20_000 }).catch((error: unknown) => error)
    if (found instanceof Error) expect(found).toMatchObject({ isBadData: false })
    else expect((found as unknown[]).length).toBe(100)
    await strictInserter.close()
    await server.close()
  })

  test.each(shortened.slice(0, 2))(
    'rejects with a retryable failure when the server enforces %s against the settings of the statement',
    async (_, forced) => {
      const server = await withProfile(clickHouse.address, {}, forced)
      const strictInserter = openEventInserterAt(server.address)
      await expect(strictInserter.findBadRows(lines, { timeoutMs: 20_000 })).rejects.toMatchObject({ retryable: true })
      await strictInserter.close()
      await server.close()
    },
  )
})
