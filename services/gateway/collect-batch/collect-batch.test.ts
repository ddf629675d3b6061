import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'
import { startCpuStopwatch } from '../../../tests/support/stopwatch.ts'

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway()
})

afterAll(async () => {
  await gateway.stop()
})

const mebibyte = 1024 * 1024
const ndjson = { headers: { 'Content-Type': 'application/x-ndjson' } }
const accepted = (data: object) => ({ success: true, timestamp: expect.any(Number), data })
const refused = (error: string, data?: object) => ({
  success: false,
  error,
  timestamp: expect.any(Number),
  ...(data && { data }),
})

function events(siteId: string, count: number, parts: object = {}): object[] {
  return Array.from({ length: count }, (_, n) => ({ site_id: siteId, event_type: 'x', user_id: `u${n}`, ...parts }))
}

/** JSON of an event of exactly `bytes` bytes. */
function eventOf(siteId: string, bytes: number): string {
  const head = `{"site_id":"${siteId}","event_type":"x","event_id":"large","l":["`
  return `${head}${'x'.repeat(bytes - head.length - 3)}"]}`
}

test.each([
  ['a list', undefined, 0],
  ['a list of more than 1 MiB', undefined, 1024 * 1024],
  ['lines', ndjson, 0],
])('a body that is not valid UTF-8 is refused as a whole: %s', async (_what, options, spaces) => {
  const event = '{"site_id":"utf8","event_type":"\xff"}'
  const text = options === undefined ? `{"events":[${event}]}${' '.repeat(spaces)}` : `${event}\n${event}`
  const { status, body } = await gateway.collectBatch(Buffer.from(text, 'latin1'), options)
  expect(status).toBe(400)
  expect(body).toMatchObject({ error: 'Invalid format: body is not valid UTF-8' })
  expect(await gateway.stored('utf8', 0)).toStrictEqual([])
})

test.each([
  ['a list', '', undefined],
  ['a list of more than 1 MiB', ' '.repeat(mebibyte), undefined],
  ['lines', '', ndjson],
])(
  'names of properties are stored as they were sent, after names with a backslash: %s',
  async (what, spaces, options) => {
    const siteId = `names-${what.length}`
    const sent = [
      String.raw`"\\u":1`,
      String.raw`"\u5e74\u9f62":2`,
      String.raw`"gr\\u0":3`,
      String.raw`"gr\u00f6\u00dfe":4`,
    ]
    const lines = sent.map((property, n) => `{"site_id":"${siteId}","event_type":"x","user_id":"u${n}",${property}}`)
    const body = options === undefined ? `{"events":[${lines.join()}]${spaces}}` : lines.join('\n')
    expect((await gateway.collectBatch(Buffer.from(body), options)).status).toBe(202)
    const rows = await gateway.stored(siteId, lines.length)
    const names = rows.flatMap(({ row }) => Object.keys(row.properties ?? {}))
    expect(new Set(names)).toStrictEqual(new Set([String.raw`\u`, '年齢', String.raw`gr\u0`, 'größe']))
  },
)

describe('202 is the answer to', () => {
  test('a batch whose events are all in the log, in one block per partition and kind', async () => {
    const { status, body } = await gateway.collectBatch({ events: events('all', 500) })
    expect(status).toBe(202)
    expect(body).toStrictEqual(accepted({ accepted: 500, rejected: 0, errors: [] }))
    const rows = await gateway.stored('all', 500)
    expect(new Set(rows.map(({ row }) => row.user_id)).size).toBe(500)
    // Events whose ids the gateway created are in one partition.
    expect(new Set(rows.map(({ block }) => block)).size).toBe(1)
    expect(rows[0]?.headers.rows).toBe(500)
  })

  test('a batch of one event, and of 2,000 events', async () => {
    expect((await gateway.collectBatch({ events: events('many', 2_000) })).body).toStrictEqual(
      accepted({ accepted: 2_000, rejected: 0, errors: [] }),
    )
    await gateway.stored('many', 2_000)
    expect((await gateway.collectBatch({ events: events('single', 1) })).status).toBe(202)
    await gateway.stored('single', 1)
  })

  test('one event on each line, with blank lines and any line endings', async () => {
    const lines = events('lines', 3).map((event) => JSON.stringify(event))
    for (const body of [lines.join('\n'), `${lines.join('\n')}\n`, `\n\n${lines.join('\r\n\r\n  \n')}\r\n \n`]) {
      const { status, body: answer } = await gateway.collectBatch(body, ndjson)
      expect(status).toBe(202)
      expect(answer).toStrictEqual(accepted({ accepted: 3, rejected: 0, errors: [] }))
    }
    await gateway.stored('lines', 9)
  })

  test('a body with a byte order mark, as a list of any size and as lines', async () => {
    const list = JSON.stringify({ events: events('marked', 2) })
    const lines = events('marked', 2).map((event) => JSON.stringify(event))
    const bodies = [
      [list, undefined],
      [`${list}${' '.repeat(1024 * 1024)}`, undefined],
      [lines.join('\n'), ndjson],
    ] as const
    for (const [body, options] of bodies) {
      const answer = await gateway.collectBatch(`\uFEFF${body}`, options)
      expect(answer.body).toStrictEqual(accepted({ accepted: 2, rejected: 0, errors: [] }))
    }
    await gateway.stored('marked', 6)
  })

  test('numbers that a double can’t hold, which keep their digits, as a list of any size and as lines', async () => {
    const event = (siteId: string, n: number) =>
      `{"site_id":"${siteId}","event_type":"x","properties":{"n":${n},"order":1234567890123456789${n},"price":0.1234567890123456789${n + 1},"small":1${n}.0000000000000000001e-40}}`
    const list = (siteId: string) => `{"events":[${[0, 1].map((n) => event(siteId, n)).join(',')}]}`
    const bodies = {
      'digits-list': [list('digits-list'), undefined],
      'digits-large': [`${list('digits-large')}${' '.repeat(1024 * 1024)}`, undefined],
      'digits-lines': [[0, 1].map((n) => event('digits-lines', n)).join('\n'), ndjson],
    } as const
    for (const [siteId, [body, options]] of Object.entries(bodies)) {
      expect((await gateway.collectBatch(body, options)).status).toBe(202)
      const rows = await gateway.stored(siteId, 2)
      expect(rows.map(({ row }) => row.properties)).toEqual([
        { n: '0', order: '12345678901234567890', price: '0.12345678901234567891', small: '10.0000000000000000001e-40' },
        { n: '1', order: '12345678901234567891', price: '0.12345678901234567892', small: '11.0000000000000000001e-40' },
      ])
    }
  })

  test.each(['1.00000000000000000001', '1.00000000000000000001e-40'])(
    'one number that a double can’t hold, %s',
    async (number) => {
      const siteId = `one-${number}`
      const sent = [number, '0.5', '0.30000000000000004', '"1.00000000000000000001"'].map(
        (n) => `{"site_id":"${siteId}","event_type":"x","properties":{"n":${n}}}`,
      )
      expect((await gateway.collectBatch(`{"events":[${sent.join(', ')}]}`)).body.data).toMatchObject({ accepted: 4 })
      const rows = await gateway.stored(siteId, 4)
      expect(rows.map(({ row }) => row.properties?.n)).toEqual([
        number,
        '0.5',
        '0.30000000000000004',
        '1.00000000000000000001',
      ])
    },
  )

  test('numbers that a double can’t hold beside an event that is nested too deeply, which alone is refused', async () => {
    const good = '{"site_id":"deep-neighbour","event_type":"x","properties":{"order":12345678901234567890}}'
    const deep = `{"site_id":"deep-neighbour","event_type":"x","a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`
    const { status, body } = await gateway.collectBatch(`{"events":[${good},${deep}]}`)
    expect(status).toBe(202)
    expect(body.data).toMatchObject({ accepted: 1, rejected: 1, errors: [{ index: 1 }] })
    const [stored] = await gateway.stored('deep-neighbour', 1)
    expect(stored?.row.properties).toEqual({ order: '12345678901234567890' })
  })

  test('a body in gzip, as a list and as lines', async () => {
    const list = gzipSync(JSON.stringify({ events: events('gzip', 100) }))
    const lines = gzipSync(
      events('gzip', 100)
        .map((event) => JSON.stringify(event))
        .join('\n'),
    )
    expect((await gateway.collectBatch(list, { headers: { 'Content-Encoding': 'gzip' } })).status).toBe(202)
    expect(
      (await gateway.collectBatch(lines, { headers: { ...ndjson.headers, 'Content-Encoding': 'gzip' } })).status,
    ).toBe(202)
    await gateway.stored('gzip', 200)
  })

  test('a batch with some invalid events, which are listed by index and id', async () => {
    const { status, body } = await gateway.collectBatch({
      events: [
        { site_id: 'mixed', event_type: 'x', event_id: 'good-0' },
        { site_id: 'mixed', event_id: 'bad-1' },
        'text',
        null,
        { site_id: 'mixed', event_type: 'x', event_id: 'good-4', timestamp: 1_767_000_000_000 },
        { site_id: 'mixed', event_type: 'x', event_id: '', country: 'Germany' },
        { site_id: 'mixed', event_type: 'x', event_id: 'e'.repeat(65) },
        [{ site_id: 'mixed', event_type: 'x' }],
        { site_id: 'mixed', event_id: `svc_prod_${'a'.repeat(34)}` },
      ],
    })
    expect(status).toBe(202)
    expect(body).toStrictEqual(
      accepted({
        accepted: 2,
        rejected: 7,
        errors: [
          { index: 1, event_id: 'bad-1', error: 'Missing required field: event_type' },
          { index: 2, error: 'Invalid format: an event must be a JSON object' },
          { index: 3, error: 'Invalid format: an event must be a JSON object' },
          { index: 5, error: 'Invalid field: country must be 2 letters or digits' },
          { index: 6, error: 'Invalid field: event_id exceeds maximum length of 64' },
          { index: 7, error: 'Invalid format: an event must be a JSON object' },
          { index: 8, event_id: '[redacted]', error: 'Missing required field: event_type' },
        ],
      }),
    )
    const rows = await gateway.stored('mixed', 2)
    expect(rows.map(({ row }) => row.event_id).sort()).toStrictEqual(['good-0', 'good-4'])
    // One event is undated and the other is dated, so there are two blocks.
    expect(new Set(rows.map(({ headers }) => headers.undated))).toStrictEqual(new Set([true, undefined]))
  })

  test('lines of which some are not JSON, which are listed by index and line', async () => {
    const good = JSON.stringify(events('torn', 1)[0])
    const { status, body } = await gateway.collectBatch(
      `\n\n${good}\n{"site_id":\n\n${good} ${good}\n${good}\n[`,
      ndjson,
    )
    expect(status).toBe(202)
    expect(body.data).toStrictEqual({
      accepted: 2,
      rejected: 3,
      errors: [
        { index: 1, error: 'Invalid format: line 4 is not valid JSON' },
        { index: 2, error: 'Invalid format: line 6 is not valid JSON' },
        { index: 4, error: 'Invalid format: line 8 is not valid JSON' },
      ],
    })
    await gateway.stored('torn', 2)
  })

  test('a batch with more than 100 errors, of which the first 100 are listed and all are counted', async () => {
    const bad = Array.from({ length: 150 }, (_, n) => ({ site_id: 'counted', event_id: `bad-${n}` }))
    const { body } = await gateway.collectBatch({ events: [...bad, ...events('counted', 1)] })
    const data = body.data as { accepted: number; rejected: number; errors: { index: number }[] }
    expect(data).toMatchObject({ accepted: 1, rejected: 150 })
    expect(data.errors.map(({ index }) => index)).toStrictEqual(Array.from({ length: 100 }, (_, n) => n))
  })

  test('events of many new sites, which are all registered', async () => {
    const siteIds = Array.from({ length: 500 }, (_, n) => `site-${n}`)
    const { status } = await gateway.collectBatch({ events: siteIds.flatMap((siteId) => events(siteId, 2)) })
    expect(status).toBe(202)
    const known = await gateway.postgres.db
      .selectFrom('sites')
      .select('site_id')
      .where('site_id', 'in', siteIds)
      .execute()
    expect(known).toHaveLength(500)
    await gateway.stored('site-499', 2)
  })

  test('copies of an event, which are in one partition, while other ids are distributed', async () => {
    const batch = [
      ...events('spread', 1, { event_id: 'copy' }),
      ...Array.from({ length: 200 }, (_, n) => ({ site_id: 'spread', event_type: 'x', event_id: `e${n}` })),
      ...events('spread', 1, { event_id: 'copy', timestamp: 1_767_000_000_000 }),
    ]
    await gateway.collectBatch({ events: batch })
    await gateway.collectBatch({ events: batch.toReversed() })
    const rows = await gateway.stored('spread', 404)
    const partitionsOf = (id: string) =>
      new Set(rows.filter(({ row }) => row.event_id === id).map(({ partition }) => partition))
    expect(partitionsOf('copy').size).toBe(1)
    for (let n = 0; n < 200; n++) expect(partitionsOf(`e${n}`).size).toBe(1)
    expect(new Set(rows.map(({ partition }) => partition)).size).toBe(4)
  })
})

describe('an event over 32 KiB', () => {
  test('is an error of that event in a list', async () => {
    const list = `{"events": [${eventOf('sized', 32_768)}, ${eventOf('sized', 32_769)}]}`
    const { status, body } = await gateway.collectBatch(list)
    expect(status).toBe(202)
    expect(body.data).toStrictEqual({
      accepted: 1,
      rejected: 1,
      errors: [{ index: 1, event_id: 'large', error: 'Event is larger than 32768 bytes' }],
    })
  })

  test('in a list is measured with what another property of the same flattened name replaces', async () => {
    /** All ways to write one name as names of nested objects, each with a text. */
    const waysOf = (names: readonly string[]): object => ({
      [names.join('.')]: 'x'.repeat(2_048),
      ...Object.fromEntries(
        names.slice(1).map((_, at) => [names.slice(0, at + 1).join('.'), waysOf(names.slice(at + 1))]),
      ),
    })
    const event = { site_id: 'repeated', event_type: 'x', event_id: 'repeated' }
    const properties = waysOf(['a', 'b', 'c', 'd', 'e', 'f'])
    const { body } = await gateway.collectBatch({
      events: [
        { ...event, properties },
        { ...event, ...properties },
      ],
    })
    const error = 'Event is larger than 32768 bytes'
    expect(body.data).toMatchObject({
      accepted: 0,
      errors: [
        { index: 0, error },
        { index: 1, error },
      ],
    })
  })

  test('in a list is measured with all digits of its integers, which are stored', async () => {
    const event = (digits: number): string => {
      const [start, end] = ['{"site_id":"digits","event_type":"x","properties":{"n":[', ']}}']
      const integer = `1${'0'.repeat(307)}`
      const count = Math.floor((digits - start.length - end.length + 1) / (integer.length + 1))
      return start + Array.from({ length: count }, () => integer).join(',') + end
    }
    const { body } = await gateway.collectBatch(`{"events":[${event(32_768)},${event(32_768 + 309)}]}`)
    expect(body.data).toMatchObject({
      accepted: 1,
      errors: [{ index: 1, error: 'Event is larger than 32768 bytes' }],
    })
  })

  test('in a list is measured with all digits of its timestamp, of which the whole part is stored', async () => {
    const event = (bytes: number): string => {
      const start = `{"site_id":"digits","event_type":"x","timestamp":${Date.now()}.`
      return `${start}${'1'.repeat(bytes - start.length - 1)}}`
    }
    const { body } = await gateway.collectBatch(`{"events":[${event(32_768)},${event(32_769)},${event(300_000)}]}`)
    const error = 'Event is larger than 32768 bytes'
    expect(body.data).toMatchObject({
      accepted: 1,
      errors: [
        { index: 1, error },
        { index: 2, error },
      ],
    })
  })

  test('in a list is measured without white space', async () => {
    const event = JSON.parse(eventOf('spaced', 32_768)) as object
    const { body } = await gateway.collectBatch(JSON.stringify({ events: [event] }, null, 10))
    expect(body.data).toMatchObject({ accepted: 1, rejected: 0 })
  })

  test('is an error of its line, which is measured as it was sent', async () => {
    const { body } = await gateway.collectBatch(`${eventOf('line', 32_768)}\r\n${eventOf('line', 32_769)}`, ndjson)
    expect(body.data).toStrictEqual({
      accepted: 1,
      rejected: 1,
      errors: [{ index: 1, error: 'Event is larger than 32768 bytes' }],
    })
    // JSON.stringify writes these numbers with five times as many characters as were sent.
    const numbers = `{"site_id":"numbers","event_type":"x","l":[${Array.from({ length: 5_000 }, () => '1e20').join(',')}]}`
    expect((await gateway.collectBatch(numbers, ndjson)).body.data).toMatchObject({ accepted: 1, rejected: 0 })
    const [stored] = await gateway.stored('numbers', 1)
    expect(JSON.parse(stored?.row.properties?.l ?? '[]')).toHaveLength(5_000)
  })
})

describe('400 is the answer to', () => {
  test.each<[string, string]>([
    ['', 'Invalid format: body is empty, a JSON object is expected'],
    ['{"events": [}', 'Invalid format: body is not valid JSON'],
    ['[]', 'Invalid format: body must be a JSON object with a list "events"'],
    ['[{"site_id": "s", "event_type": "x"}]', 'Invalid format: body must be a JSON object with a list "events"'],
    ['5', 'Invalid format: body must be a JSON object with a list "events"'],
    ['{}', 'Missing required field: events'],
    ['{"events": null}', 'Missing required field: events'],
    ['{"events": ""}', 'Missing required field: events'],
    ['{"__proto__": {"events": [1]}}', 'Missing required field: events'],
    ['{"events": {}}', 'Invalid field: events must be a list'],
    ['{"events": "[]"}', 'Invalid field: events must be a list'],
    ['{"events": []}', 'Invalid field: events must hold at least 1 event'],
    ['{"events": [1], "batch": 5}', 'Invalid field: batch is not known: a batch holds "events" alone'],
    ['{"events": [1], "__proto__": 5}', 'Invalid field: __proto__ is not known: a batch holds "events" alone'],
  ])('%s', async (sent, error) => {
    const { status, body } = await gateway.collectBatch(sent)
    expect(status).toBe(400)
    expect(body).toStrictEqual(refused(error))
  })

  test.each(['', '\n', ' \r\n\t\n'])('a body without lines, %j', async (sent) => {
    const { status, body } = await gateway.collectBatch(sent, ndjson)
    expect(status).toBe(400)
    expect(body).toStrictEqual(refused('Invalid field: events must hold at least 1 event'))
  })

  test('2,001 events, of which none is stored', async () => {
    const tooMany = events('too-many', 2_001)
    for (const answer of [
      await gateway.collectBatch({ events: tooMany }),
      await gateway.collectBatch(tooMany.map((event) => JSON.stringify(event)).join('\n'), ndjson),
    ]) {
      expect(answer.status).toBe(400)
      expect(answer.body).toStrictEqual(refused('Invalid field: events must contain at most 2000 events'))
    }
    expect(await gateway.stored('too-many', 0)).toStrictEqual([])
  })

  test('a batch without a valid event, with the reasons in data.errors', async () => {
    const { status, body } = await gateway.collectBatch({ events: [{ event_id: 'e1' }, 5] })
    expect(status).toBe(400)
    expect(body).toStrictEqual(
      refused('Invalid field: events holds no valid event, see data.errors', {
        accepted: 0,
        rejected: 2,
        errors: [
          { index: 0, event_id: 'e1', error: 'Missing required field: site_id' },
          { index: 1, error: 'Invalid format: an event must be a JSON object' },
        ],
      }),
    )
    expect((await gateway.collectBatch('not JSON\n', ndjson)).body).toStrictEqual(
      refused('Invalid field: events holds no valid event, see data.errors', {
        accepted: 0,
        rejected: 1,
        errors: [{ index: 0, error: 'Invalid format: line 1 is not valid JSON' }],
      }),
    )
  })
})

describe('413 is the answer to', () => {
  const tooLarge = refused('Request body is larger than 10485760 bytes')

  test('a body of more than 10 MiB, compressed or not, while 10 MiB are accepted', async () => {
    const body = (bytes: number) => Buffer.alloc(bytes, ' ')
    const good = Buffer.from(JSON.stringify({ events: events('limit', 1) }))
    const padded = body(10 * mebibyte)
    good.copy(padded)
    expect((await gateway.collectBatch(padded)).status).toBe(202)
    for (const answer of [
      await gateway.collectBatch(Buffer.concat([padded, body(1)])),
      await gateway.collectBatch(Buffer.concat([padded, body(mebibyte)])),
      await gateway.collectBatch(gzipSync(Buffer.concat([padded, body(mebibyte)])), {
        headers: { 'Content-Encoding': 'gzip' },
      }),
    ]) {
      expect(answer.status).toBe(413)
      expect(answer.body).toStrictEqual(tooLarge)
    }
    await gateway.stored('limit', 1)
  })

  test('a gzip bomb', async () => {
    const member = gzipSync(Buffer.alloc(16 * mebibyte))
    const bomb = Buffer.concat(Array.from({ length: 64 }, () => member))
    const { status, body } = await gateway.collectBatch(bomb, { headers: { 'Content-Encoding': 'gzip' } })
    expect(status).toBe(413)
    expect(body).toStrictEqual(tooLarge)
  })
})

test('items without commas are counted, too, before the body is parsed', async () => {
  const { status, body } = await gateway.collectBatch(`{"events":[${'{}'.repeat(600_000)}]}`)
  expect([status, body.error]).toStrictEqual([400, 'Invalid field: events must contain at most 2000 events'])
})

describe('the service goes on after it has quickly rejected', () => {
  const hostile: [string, string, typeof ndjson | undefined][] = [
    ['400,000 [', '['.repeat(400_000), undefined],
    ['400,000 [ as lines', '['.repeat(400_000), ndjson],
    ['400,000 [ in a list', `{"events":[${'['.repeat(400_000)}${']'.repeat(400_000)}]}`, undefined],
    [
      '200,000 levels in a property',
      `{"events":[{"site_id":"s","event_type":"x","a":${'['.repeat(200_000)}${']'.repeat(200_000)}}]}`,
      undefined,
    ],
    ['levels of objects', `{"events":[${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}]}`, undefined],
    ['1e999', '{"events":[{"site_id":"s","event_type":"x","timestamp":1e999}]}', undefined],
    ['NUL', '{"events":[{"site_id":"\\u0000","event_type":"x"}]}', undefined],
    ['ten million blank lines', '\n'.repeat(10 * mebibyte), ndjson],
    ['five million numbers', `{"events":[${'1,'.repeat(5_000_000)}1]}`, undefined],
    ['five million objects without commas', `{"events":[${'{}'.repeat(5_000_000)}]}`, undefined],
    ['a million names', `{${Array.from({ length: 600_000 }, (_, n) => `"k${n}":1`).join(',')}}`, undefined],
    [
      'an event of 600,000 fields',
      `{"events":[{"site_id":"s","event_type":"x",${Array.from({ length: 600_000 }, (_, n) => `"k${n}":1`).join(',')}}]}`,
      undefined,
    ],
  ]

  test.each(hostile)('%s', async (_what, body, options) => {
    const elapsedMs = startCpuStopwatch()
    const answer = await gateway.collectBatch(body, options)
    expect(answer.status).toBe(400)
    expect(elapsedMs()).toBeLessThan(10_000)
    expect((await gateway.collectBatch({ events: events('alive', 1) })).status).toBe(202)
  })
})

test('other media types and encodings are answered 415', async () => {
  for (const headers of [{ 'Content-Type': 'text/csv' }, { 'Content-Encoding': 'compress' }]) {
    expect((await gateway.collectBatch({ events: events('s', 1) }, { headers })).status).toBe(415)
  }
})

test('events are stored in the environment of the key', async () => {
  await gateway.collectBatch({ events: events('dev', 2) }, { key: gateway.keys.dev })
  for (const { row } of await gateway.stored('dev', 2)) expect(row.environment).toBe('dev')
})

test('the log line of a request has counts', async () => {
  await gateway.collectBatch({ events: [...events('logged', 3), 5] }, { headers: { 'X-Request-Id': 'batch' } })
  expect(gateway.service.lines().find(({ request_id }) => request_id === 'batch')).toMatchObject({
    status: 202,
    events: 3,
    rejected: 1,
    sites: 1,
  })
})
