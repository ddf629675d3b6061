import { afterEach, expect, test } from '@jest/globals'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { AppError } from '@sluice/runtime/errors'
import { type Block, expectGolden, joinBlocks, lineJson, maskIds, prettyJson } from './golden.ts'
import {
  type GivenResponse,
  type ReceivedRequest,
  type RecordingServer,
  startRecordingServer,
} from './recording-server.ts'

let server: RecordingServer

afterEach(() => server.stop())

async function start(respond?: (request: ReceivedRequest, index: number) => GivenResponse): Promise<string> {
  server = await startRecordingServer(respond)
  return `http://us%40er:p%3Aw@${server.host}/da_ta`
}

const storeId = '0190f1b2-0000-7000-8000-000000000001'

/** The response to an inserter's question for its store; undefined for any other request. */
function storeResponse({ body }: ReceivedRequest): GivenResponse | undefined {
  if (!body.includes('AS is_own')) return undefined
  return {
    body: `{"meta":[],"data":[{"id":"${storeId}","shard":0,"shards":1,"is_own":1,"engine":"ReplacingMergeTree"}],"rows":1}`,
  }
}

/** The summary of ClickHouse for a statement that reads and writes nothing. */
const noRows = { 'X-ClickHouse-Summary': '{"read_rows":"0","written_rows":"0"}' }

/** Headers that ClickHouse reads; the others come from the HTTP client and contain versions. */
const recordedHeaders = ['authorization', 'content-type', 'accept-encoding', 'host']

function requestBlock({ method, path, query, headers, body }: ReceivedRequest, heading: string): Block {
  const [program = ''] = (headers['user-agent'] ?? '').split(' ')
  return {
    heading,
    text: maskIds(
      [
        `${method} ${path}`,
        ...recordedHeaders.filter((name) => name in headers).map((name) => `${name}: ${String(headers[name])}`),
        ...(program === '' ? [] : [`user-agent: ${program} …`]),
        `parameters: ${prettyJson(Object.fromEntries(query))}`,
        `body: ${body}`,
      ].join('\n'),
    ),
  }
}

test('queries and commands go to ClickHouse as in the golden file', async () => {
  const url = await start(() => ({ headers: noRows, body: '{"meta":[],"data":[],"rows":0}' }))
  const clickHouse = openClickHouse(url)
  await clickHouse.query('SELECT {a:String}, {b:Int64}, {c:Array(Int64)}, {d:Array(String)}, {e:Float64}, {f:Bool}', {
    a: "it's \\ a\ttext\nü ✓",
    b: -1715774400000,
    c: [1, 2],
    d: ["it's", '\\', 'ü'],
    e: 9.5,
    f: true,
  })
  await clickHouse.query('SELECT 1', {}, { settings: { readonly: '2', max_execution_time: 30, limit: '5' } })
  await clickHouse.command('TRUNCATE TABLE x')
  await clickHouse.command('INSERT INTO x VALUES ({a:String})', {
    params: { a: 'b' },
    settings: { mutations_sync: '1' },
  })
  await clickHouse.check()
  await clickHouse.close()
  const headings = ['a question with every kind of value', 'settings of a question', 'a command', 'settings', 'a check']
  expectGolden(
    'clickhouse/questions.txt',
    joinBlocks(server.received.map((request, index) => requestBlock(request, headings[index] ?? ''))),
  )
})

test('migrations go to ClickHouse as in the golden file', async () => {
  const url = await start(({ body }) => ({
    headers: noRows,
    body: body.includes('system.tables') ? '{"meta":[],"data":[{"found":0}]}' : '{"meta":[],"data":[]}',
  }))
  const names = await migrateClickHouse(url)
  expectGolden(
    'clickhouse/migrations.txt',
    joinBlocks([
      { heading: 'names', text: lineJson(names) },
      ...server.received.map(({ query, body }, index) => {
        const parameters = query.filter(([name]) => name === 'database' || name.startsWith('param_'))
        return {
          heading: `statement ${index + 1}`,
          text: maskIds(`${body}\n${lineJson(Object.fromEntries(parameters))}`),
        }
      }),
    ]),
  )
})

test.each([
  ['dated', false],
  ['undated', true],
])('the insert of %s rows goes to ClickHouse as in the golden file', async (kind, hasUndated) => {
  const summary = '{"read_rows":"7","written_rows":"2"}'
  const url = await start((request) => storeResponse(request) ?? { headers: { 'X-ClickHouse-Summary': summary } })
  const inserter = openEventInserter(url)
  const payloads = [Buffer.from('{"site_id":"a"}\n'), Buffer.from('{"site_id":"ü"}\n')]
  const first = await inserter.insert(
    { payloads, hasUndated },
    { queryId: 'writer-log-3', shouldReplaceRunning: true, timeoutMs: 60_000 },
  )
  const second = await inserter.insert(
    { payloads: [], hasUndated },
    { queryId: 'writer-log-3', shouldReplaceRunning: false, timeoutMs: 1_001 },
  )
  await inserter.close()
  expectGolden(
    `clickhouse/insert-${kind}.txt`,
    joinBlocks([
      ...server.received.map((request, index) =>
        requestBlock(request, ['the store', 'two payloads, a running insert is replaced', 'no payload'][index] ?? ''),
      ),
      { heading: 'results', text: lineJson([first, second]) },
    ]),
  )
})

/** The numbers of the sent rows: the response of a ClickHouse that can read them all. */
function numbersOf({ body }: ReceivedRequest): number[] {
  return [...body.matchAll(/^\{"n":(\d+),/gm)].map(([, number]) => Number(number))
}

test('bad rows are searched for as in the golden file', async () => {
  const url = await start((request, index) => {
    if (index === 0) {
      const good = numbersOf(request).filter((number) => number !== 3)
      return { headers: noRows, body: good.map((number) => `${number}\n`).join('') }
    }
    return {
      status: 400,
      headers: { 'X-ClickHouse-Exception-Code': '117' },
      body: 'Code: 117. Unknown field found while parsing JSONEachRow format',
    }
  })
  const inserter = openEventInserter(url)
  const lines = ['{"site_id":"a"}\n', 'no json\n', '{"unknown":1}\n', '{"site_id":"b"}\n', '{}\n', '[1]\n']
  const bad = await inserter.findBadRows(
    lines.map((line) => Buffer.from(line)),
    { timeoutMs: 60_000 },
  )
  await inserter.close()
  expectGolden(
    'clickhouse/bad-rows.txt',
    joinBlocks([
      ...server.received.map((request, index) =>
        requestBlock(request, index === 0 ? 'which rows are good' : 'what is wrong with a row'),
      ),
      { heading: 'bad rows', text: bad.map(lineJson).join('\n') },
    ]),
  )
})

const codes = [
  undefined,
  6,
  25,
  26,
  27,
  33,
  41,
  53,
  60,
  69,
  70,
  72,
  81,
  117,
  130,
  131,
  158,
  159,
  164,
  173,
  191,
  202,
  203,
  209,
  210,
  216,
  236,
  241,
  242,
  243,
  252,
  285,
  286,
  306,
  307,
  319,
  321,
  349,
  394,
  395,
  396,
  425,
  427,
  467,
  473,
  516,
  691,
  999,
]

test('the codes of ClickHouse mean what the golden file says', async () => {
  await start()
  const lines = codes.map((code) => {
    const error = new ClickHouseError(code, 'the reason', { mayHaveBadRows: true })
    expect(error).toBeInstanceOf(AppError)
    const { message, retryable, retryAfterSeconds, isBadData, isTooLarge } = error
    return `${code ?? 'none'}: ${lineJson([message, { retryable, retryAfterSeconds, isBadData, isTooLarge }])}`
  })
  expectGolden('clickhouse/codes.txt', `${lines.join('\n')}\n`)
})

test('a failure of ClickHouse is reported as in the golden file', async () => {
  const responses: GivenResponse[] = [
    {
      status: 404,
      headers: { 'X-ClickHouse-Exception-Code': '60' },
      body: 'Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)',
    },
    { status: 500, body: 'a proxy’s page' },
    { status: 502 },
    { status: 200, headers: { 'X-ClickHouse-Summary': '{"written_rows":"many"}' } },
  ]
  const url = await start((request, index) => storeResponse(request) ?? responses[index - 1] ?? {})
  const inserter = openEventInserter(url)
  const lines: string[] = []
  for (const response of responses) {
    const failure: unknown = await inserter
      .insert({ payloads: [], hasUndated: false }, { queryId: 'q', shouldReplaceRunning: false, timeoutMs: 5_000 })
      .catch((error: unknown) => error)
    if (!(failure instanceof ClickHouseError)) throw new Error('it was taken')
    const { serverCode: code, internal, retryable } = failure
    lines.push(`${lineJson(response)}\n${lineJson({ code, internal, retryable })}`)
  }
  await inserter.close()
  expectGolden('clickhouse/failures.txt', `${lines.join('\n\n')}\n`)
})
