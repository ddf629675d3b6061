import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type TestClickHouse, testClickHouse } from '@sluice/engines/testing'
import { randomUUID } from 'node:crypto'
import { type ClickHouse, openClickHouse, parseClickHouseUrl } from './client.ts'
import { ClickHouseError } from './errors.ts'
import { type EventInserter, eventInserter } from './insert-events.ts'
import { migrateClickHouse } from './migrate.ts'
import { withProfile } from './profile.test-support.ts'

const noon = Date.UTC(2024, 4, 15, 12)

let database: TestClickHouse
let clickHouse: ClickHouse
let inserter: EventInserter

beforeAll(async () => {
  database = testClickHouse()
  await migrateClickHouse(database.url)
  clickHouse = openClickHouse(database.url)
  inserter = eventInserter(parseClickHouseUrl(database.url))
})

afterAll(async () => {
  inserter.close()
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

/** A line with these bytes in the place of its event type. */
function lineWith(bytes: readonly number[]): Buffer {
  const [before = '', after = ''] = line({ event_type: '#' }).toString().split('#')
  return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
}

/** What may stand in a block that our gateway did not write. */
const strange: Readonly<Record<string, Buffer>> = {
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
      { payloads: [row, Buffer.from('\n')], undated: false },
      { queryId: randomUUID(), replaceRunning: false, timeoutMs: 20_000 },
    )
    return inserted === 1
  } catch (error) {
    // The writer asks about the rows for these codes only: every bad row must have one of them.
    expect(error).toBeInstanceOf(ClickHouseError)
    expect(error).toMatchObject({ isOfData: true, retryable: false })
    return false
  }
}

const badOf = async (lines: readonly Buffer[]) => inserter.findBadRows(lines, { timeoutMs: 20_000 })

test.each(Object.entries(strange))('%s: bad among good ones if the insert refuses it alone', async (name, row) => {
  const isStored = await isStoredAlone(row)
  const bad = await badOf([line(), row, line()])
  // Two objects on one line are stored, but the block has a row more than it says.
  if (isStored && name !== 'two objects') expect(bad).toStrictEqual([])
  else expect(bad).toMatchObject([{ index: 1, text: expect.stringMatching(/./) as unknown }])
})

test('all of them at once, in any company', async () => {
  const expected: number[] = []
  const lines = Object.values(strange).flatMap((row) => [row, line(), row])
  for (const [index, row] of lines.entries()) if ((await badOf([row])).length > 0) expected.push(index)
  expect((await badOf(lines)).map(({ index }) => index)).toStrictEqual(expected)
  expect(expected.length).toBeGreaterThan(20)
})

test('the reason is ClickHouse’s own, with its code', async () => {
  expect(await badOf([line(), line({ environment: 'test' }), line({ surprise: 1 }), Buffer.from('x')])).toStrictEqual([
    { index: 1, reason: 'refused', code: 691, text: expect.stringContaining("'test'") as unknown },
    { index: 2, reason: 'refused', code: 117, text: expect.stringContaining('surprise') as unknown },
    { index: 3, reason: 'not_json', text: 'the line is no JSON object' },
  ])
})

test('a whole batch of bad rows costs a bounded number of queries', async () => {
  const lines = Array.from({ length: 20_000 }, (_, n) => line({ timestamp: n % 2 === 0 ? 'noon' : noon }))
  const bad = await badOf(lines)
  expect(bad.map(({ index }) => index)).toStrictEqual(Array.from({ length: 10_000 }, (_, n) => 2 * n))
  expect(bad.every(({ code }) => code === 27)).toBe(true)
})

describe('nothing but the rows makes a row bad', () => {
  test('without the table: all rows are good', async () => {
    const empty = eventInserter({ ...clickHouse.address, database: 'default' })
    expect(await empty.findBadRows([line()], { timeoutMs: 20_000 })).toStrictEqual([])
    empty.close()
  })

  test.each([
    ['no server', { origin: 'http://127.0.0.1:1' }, undefined],
    ['a wrong password', { password: 'wrong' }, 516],
  ])('%s: rejects', async (_, change, code) => {
    const broken = eventInserter({ ...clickHouse.address, ...change })
    await expect(broken.findBadRows([line({ environment: 'x' })], { timeoutMs: 5_000 })).rejects.toMatchObject({ code })
    broken.close()
  })
})

describe('a row is given up only by an answer that is whole', () => {
  const lines = Array.from({ length: 200 }, (_, n) => line(n % 2 === 0 ? {} : { timestamp: 'noon' }))
  const shortened = [
    ['a limit', { limit: '10' }],
    ['an offset', { offset: '5' }],
    ['half of what is read', { read_overflow_mode: 'break', max_rows_to_read: '10', max_block_size: '10' }],
  ] as const

  test.each(shortened)('a profile with %s changes nothing', async (_, settings) => {
    const server = await withProfile(clickHouse.address, settings)
    const careful = eventInserter(server.address)
    // A profile's limit on what is read is a refusal, which is waited on.
    const found = await careful.findBadRows(lines, { timeoutMs: 20_000 }).catch((error: unknown) => error)
    if (found instanceof Error) expect(found).toMatchObject({ isOfData: false })
    else expect((found as unknown[]).length).toBe(100)
    careful.close()
    await server.close()
  })

  test.each(shortened.slice(0, 2))(
    'with %s in spite of what the statement says: rejects, to be tried again',
    async (_, forced) => {
      const server = await withProfile(clickHouse.address, {}, forced)
      const careful = eventInserter(server.address)
      await expect(careful.findBadRows(lines, { timeoutMs: 20_000 })).rejects.toMatchObject({ retryable: true })
      careful.close()
      await server.close()
    },
  )
})
