import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { type Run, type Standalone, startMsMax, startProxy, startStandalone } from './standalone.ts'

let standalone: Standalone

beforeAll(async () => {
  standalone = await startStandalone()
}, startMsMax)

afterAll(() => standalone.stop())

describe('import', () => {
  it('stores a file, names the lines that failed, and writes all of them to a file', async () => {
    const csv = [
      'event_type,timestamp_ms,event_id',
      'view,1767225600000,e1',
      'view,soon,e2',
      'view,1767225600001,e3',
      '',
    ]
    const file = await standalone.write('events.csv', csv.join('\n'))
    const { code, stdout, stderr } = await standalone.run([
      'import',
      file,
      '--site',
      'csv',
      '--errors-file',
      'errors.csv',
    ])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^imp_\w+ completed: 3 of 3 events processed, 1 failed\.\n$/)
    expect(stderr).toContain(
      'Line 3, record 2: Invalid field: timestamp_ms must be a number: Unix time in milliseconds\n',
    )
    expect(stderr).toContain('sluice: 1 record could not be stored')
    expect(stderr).toMatch(/^Uploading .*\(100 %\)$/m)
    expect(await readFile(join(standalone.folder, 'errors.csv'), 'utf8')).toBe(
      'line,field,message,record\n3,timestamp_ms,Invalid field: timestamp_ms must be a number: Unix time in milliseconds,2\n',
    )
    expect((await standalone.eventsOf('csv')).map((event) => event.event_id)).toEqual(['e1', 'e3'])
  })

  it('sends nothing when the file of errors can’t be written', async () => {
    const file = await standalone.write('unsent.csv', 'event_type,timestamp_ms\nview,1767225600000\n')
    expect(
      await standalone.run(['import', file, '--site', 'unsent', '--errors-file', 'nowhere/errors.csv']),
    ).toStrictEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^sluice: nowhere\/errors\.csv can't be written: ENOENT/),
    })
    expect((await standalone.run(['stats', '--site', 'unsent'])).stderr).toContain('Site not found')
  })

  it('overwrites neither its input by the errors, nor those of an earlier import before it has its own', async () => {
    const csv = 'event_type,timestamp_ms\nview,1767225600000\n'
    const file = await standalone.write('kept.csv', csv)
    await symlink('kept.csv', join(standalone.folder, 'link.csv'))
    for (const errors of ['kept.csv', './kept.csv', 'link.csv']) {
      expect(await standalone.run(['import', file, '--site', 'kept', '--errors-file', errors])).toStrictEqual({
        code: 2,
        stdout: '',
        stderr: expect.stringContaining('--errors-file names the file to import'),
      })
    }
    const earlier = await standalone.write('earlier.csv', 'line,field,message,record\n3,a,b,2\n')
    const { code } = await standalone.run(['import', 'nowhere.csv', '--site', 'kept', '--errors-file', earlier])
    expect(code).toBe(1)
    expect(await readFile(join(standalone.folder, 'kept.csv'), 'utf8')).toBe(csv)
    expect(await readFile(join(standalone.folder, 'earlier.csv'), 'utf8')).toContain('3,a,b,2')
  })

  it('stores nothing twice when the same standard input comes again', async () => {
    const input = Array.from(
      { length: 1_000 },
      (_each, at) => `{"event_type":"e","timestamp_ms":${1_767_225_600_000 + at}}`,
    )
    for (const time of ['first', 'second']) {
      const { code, stdout } = await standalone.run(['import', '-', '--site', 'twice'], { input: input.join('\n') })
      expect([time, code, stdout]).toEqual([
        time,
        0,
        expect.stringContaining('1,000 of 1,000 events processed, 0 failed.'),
      ])
      const asked = await standalone.run([
        'stats',
        '--site',
        'twice',
        '--start',
        '2026-01-01',
        '--end',
        '2026-01-02',
        '--csv',
      ])
      expect(asked.stdout).toContain('1767225600000,1767312000000,1000')
    }
  })

  it('refuses lines without a timestamp by their number, or gives them the one of --timestamp, repeatably', async () => {
    const input = '{"event_type":"dated","timestamp":1767225600000}\n\n{"event_type":"undated"}\n'
    expect(await standalone.run(['import', '-', '--site', 'undated'], { input })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Line 3, record 2: Missing required field: timestamp_ms'),
    })
    for (let time = 0; time < 2; time++) {
      const { code } = await standalone.run(
        ['import', '-', '--site', 'stamped', '--timestamp', '2026-01-02T00:00:00Z'],
        { input },
      )
      expect(code).toBe(0)
    }
    expect((await standalone.eventsOf('stamped')).map(({ event_type: type, timestamp }) => [type, timestamp])).toEqual([
      ['dated', 1_767_225_600_000],
      ['undated', Date.UTC(2026, 0, 2)],
    ])
  })

  it('ends after the upload with --no-wait, and --job waits for it', async () => {
    const file = await standalone.write('more.ndjson.gz', gzipSync('{"event_type":"e","timestamp_ms":1767225600000}\n'))
    const { code, stdout } = await standalone.run(['import', file, '--site', 'later', '--no-wait'])
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^imp_\w+\n$/)])
    const waited = await standalone.run(['import', '--job', stdout.trim(), '--json'])
    expect(waited.code).toBe(0)
    expect(JSON.parse(waited.stdout)).toMatchObject({ job_id: stdout.trim(), status: 'completed', errors: [] })
  })

  it('says what to do about a file, a key or a call that it can’t use', async () => {
    const workbook = await standalone.write('sheet.xlsx', 'PK\u0003\u0004')
    const cut = await standalone.write('cut.ndjson.gz', gzipSync('{"event_type":"x"}\n'.repeat(100)).subarray(0, -8))
    const list = await standalone.write('list.json', '[{"event":"x"}]')
    const parquet = await standalone.write('events.parquet', 'PAR1\u0015\u0004')
    const zstd = await standalone.write('events.jsonl.zst', zstdCompressSync('{"event":"x"}'))
    const brotli = await standalone.write('events.jsonl.br', brotliCompressSync('{"event":"x"}'))
    const cases: [args: string[], code: number, message: string][] = [
      [['nowhere.csv'], 1, 'nowhere.csv does not exist.'],
      [
        [workbook],
        1,
        'sheet.xlsx is an Excel workbook or a ZIP archive: export the sheet as CSV in UTF-8, or unpack the archive and import its files.',
      ],
      [[cut, '-t', '2026-01-01'], 1, "can't be read to its end (unexpected end of file): export it again."],
      [[list, '--from', 'posthog'], 1, 'an object a line'],
      [[parquet, '--from', 'posthog'], 1, 'events.parquet is Parquet: export it as CSV or JSON in UTF-8.'],
      [[zstd, '--from', 'posthog'], 1, 'events.jsonl.zst is compressed with zstd: unpack it, or use gzip.'],
      [[brotli, '--from', 'posthog'], 1, 'events.jsonl.br is compressed with brotli: unpack it, or use gzip.'],
      [['.'], 1, 'is not a file'],
      [['-'], 1, 'Standard input is empty.'],
      [[], 2, 'Give one of a file'],
      [['--job', ''], 2, 'Give one of a file'],
      [[''], 2, 'Give one of a file'],
      [['--job', 'imp_x', '--no-wait'], 2, "'--job <job_id>' cannot be used with option '--no-wait'"],
      [['--job', 'imp_x', '--from', 'umami'], 2, "'--job <job_id>' cannot be used with option '--from <product>'"],
      [['--job', 'imp_x', '--type', 'users'], 2, "'--job <job_id>' cannot be used with option '--type <type>'"],
      [
        ['--job', 'imp_x', '-t', '2026-01-01'],
        2,
        "'--job <job_id>' cannot be used with option '-t, --timestamp <time>'",
      ],
      [[workbook, '--from', 'matomo'], 2, 'Allowed choices are plausible, umami, posthog'],
    ]
    await Promise.all(
      cases.map(async ([args, code, message]) => {
        const result = await standalone.run(['import', ...args, '--site', 'x'])
        expect([args, result]).toEqual([args, { code, stdout: '', stderr: expect.stringContaining(message) }])
      }),
    )
    const input = '[{"event_type":"x"}]'
    expect(await standalone.run(['import', '-', '-t', '2026-01-01', '--site', 'x'], { input })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Standard input is one JSON list: .* by "jq -c '\.\[\]'"\.\n$/),
    })
    const refused = await standalone.run(['import', list, '--site', 'x'], {
      env: { SLUICE_API_KEY: standalone.readKey },
    })
    expect(refused).toMatchObject({
      code: 4,
      stderr: 'sluice: The API key lacks the scope events:write: use a key that has it.\n',
    })
    const elsewhere = await standalone.run(['import', list, '--site', 'x'], {
      env: { SLUICE_API_KEY: standalone.shopKey },
    })
    expect(elsewhere).toMatchObject({ code: 4, stderr: expect.stringContaining('name one of shop') })
  })
})

/** A key whose limit allows only the query for the session: those of a wait are refused until the minute is over. */
async function createSlowKey(): Promise<string> {
  const created = await fetch(`${standalone.service.url}/api/v1/settings/keys`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${standalone.key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'slow', scopes: ['events:write'], rate_limits: { queries_per_minute: 1 } }),
  })
  const { data } = (await created.json()) as { data: { key: string } }
  return data.key
}

it('import removes its copy of standard input when the terminal is closed', async () => {
  const folder = join(standalone.folder, 'copies')
  await mkdir(folder)
  const copies: number[] = []
  const { code } = await standalone.run(['import', '-', '--site', 'hung-up'], {
    input: '{"event_type":"x","timestamp_ms":1767225600000}\n',
    env: { SLUICE_API_KEY: await createSlowKey(), TMPDIR: folder },
    until: ({ stderr }) => {
      copies.push(readdirSync(folder).length)
      return stderr.includes('Trying again')
    },
    signals: ['SIGHUP', 'SIGHUP'],
  })
  expect([code, Math.max(...copies)]).toEqual([130, 1])
  expect(await readdir(folder)).toEqual([])
})

it('import prints control characters of a file as text when it says what is wrong with the file', async () => {
  const file = await standalone.write('colours.csv', '\u009b31m"red"\n')
  const { code, stderr } = await standalone.run(['import', file, '--from', 'umami', '--site', 'colours'])
  expect([code, stderr]).toEqual([1, expect.stringContaining('value is "\\u009b31m"')])
  expect(stderr).not.toContain('\u009b')
})

it('import says that a proxy refuses an upload as too large', async () => {
  const file = await standalone.write('large.ndjson', '{"event_type":"x","timestamp_ms":1767225600000}\n')
  const proxy = await startProxy(standalone.service.url, (url) => (url === '/api/v1/imports' ? 413 : undefined))
  const imported = standalone.run(['import', file, '--site', 'large'], { env: proxy.env })
  const { code, stderr } = await imported.finally(proxy.stop)
  expect(code).toBe(1)
  expect(stderr).toContain(
    `sluice: A proxy at ${proxy.env.SLUICE_URL} refuses the upload as too large: ` +
      'raise its limit of request bodies, or compress the file by gzip if it is not.\n',
  )
})

describe('import --from', () => {
  const importFile = async (product: string, file: string): Promise<Run> =>
    standalone.run(['import', file, '--from', product, '--site', `from-${file}`])

  it('plausible: expands the totals of pages and custom events, whose repetition stores nothing', async () => {
    const file = await standalone.write(
      'imported_pages.csv',
      '"date","hostname","page","visits","visitors","pageviews"\n"2024-01-01","a.example","/",3,2,4\n' +
        '"2024-01-02","a.example","/x,y",1,1,"many"\n"2024-01-02","a.example","/z",1,1,2\n',
    )
    for (let time = 0; time < 2; time++) {
      const { code, stdout, stderr } = await importFile('plausible', file)
      expect([code, stdout]).toEqual([1, expect.stringContaining('7 of 7 events processed, 1 failed.')])
      expect(stderr).toContain('Line 3: pageviews is not a count\n')
    }
    const events = await standalone.eventsOf(`from-${file}`)
    expect(
      events.map(({ event_type: type, timestamp, url }) => [type, new Date(timestamp).toISOString().slice(0, 10), url]),
    ).toEqual([
      ...Array.from({ length: 4 }, () => ['page_view', '2024-01-01', 'https://a.example/']),
      ...Array.from({ length: 2 }, () => ['page_view', '2024-01-02', 'https://a.example/z']),
    ])
    const totals = await standalone.write(
      'imported_custom_events.csv',
      '"date","name","link_url","path","visitors","events"\n"2024-01-01","Sign up","","",1,2\n',
    )
    expect(await importFile('plausible', totals)).toMatchObject({ code: 0 })
    expect(await standalone.eventsOf(`from-${totals}`)).toMatchObject([
      { event_type: 'Sign up' },
      { event_type: 'Sign up' },
    ])
    const visitors = await standalone.write(
      'imported_visitors.csv',
      '"date","visitors","pageviews"\n"2024-01-01",1,2\n',
    )
    expect(await importFile('plausible', visitors)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('imported_pages_'),
    })
  })

  it('plausible: keeps the date of a total from Hawaii to the Chatham Islands', async () => {
    const file = await standalone.write(
      'dated_pages.csv',
      '"date","hostname","page","visits","visitors","pageviews"\n"2024-01-01","a.example","/",1,1,4\n',
    )
    expect(await importFile('plausible', file)).toMatchObject({ code: 0 })
    // In January, when the clocks of the south are an hour ahead.
    for (const zone of ['Pacific/Honolulu', 'UTC', 'Pacific/Auckland', 'Pacific/Tongatapu', 'Pacific/Chatham']) {
      const range = ['--start', '2024-01-01', '--end', '2024-01-02', '--timezone', zone]
      const { stdout } = await standalone.run(['stats', '--site', `from-${file}`, ...range, '--csv'])
      expect([zone, stdout]).toEqual([zone, expect.stringMatching(/,4\n$/)])
    }
  })

  it('plausible: takes the path alone of a record without a hostname', async () => {
    const pages = await standalone.write(
      'hostless_pages.csv',
      '"date","hostname","page","visits","visitors","pageviews"\n"2024-01-01","","/pricing",1,1,1\n',
    )
    const events = await standalone.write(
      'hostless_events.csv',
      '"timestamp","name","hostname","pathname","user_id","meta.key","meta.value"\n' +
        '"2024-05-01 12:00:00","pageview","","/pricing",1,"[]","[]"\n',
    )
    for (const file of [pages, events]) {
      expect(await importFile('plausible', file)).toMatchObject({ code: 0 })
      expect(await standalone.eventsOf(`from-${file}`)).toMatchObject([{ url: '/pricing' }])
    }
  })

  it('plausible: takes the events of a self-hosted installation', async () => {
    const file = await standalone.write(
      'events_v2.csv',
      '"timestamp","name","site_id","hostname","pathname","user_id","session_id","referrer","country_code","screen_size","browser","meta.key","meta.value"\n' +
        `"2024-05-01 12:00:00","pageview",1,"a.example","/p",18446744073709551615,7,"google.com/search","DE","Laptop","Firefox","[]","[]"\n` +
        `"2024-05-01 12:00:01","engagement",1,"a.example","/p",18446744073709551615,7,"","ZZ","Laptop","Firefox","[]","[]"\n` +
        `"2024-05-01 12:00:02","Order",1,"a.example","/p",18446744073709551615,7,"","ZZ","Mobile","Firefox","['plan','it\\'s']","['pro','a, b']"\n`,
    )
    expect(await importFile('plausible', file)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('2 of 2 events processed'),
    })
    expect(await standalone.eventsOf(`from-${file}`)).toMatchObject([
      {
        event_type: 'page_view',
        timestamp: Date.UTC(2024, 4, 1, 12),
        anonymous_id: '18446744073709551615',
        session_id: '7',
        url: 'https://a.example/p',
        referrer: 'https://google.com/search',
        country: 'DE',
        device_type: 'desktop',
        properties: { browser: 'Firefox' },
      },
      { event_type: 'Order', device_type: 'mobile', properties: { plan: 'pro', "it's": 'a, b' } },
    ])
  })

  it('plausible: keeps the properties of events in JSON, whose lists are arrays', async () => {
    const event = {
      timestamp: '2024-05-01 12:00:00',
      name: 'Order',
      hostname: 'a.example',
      pathname: '/p',
      user_id: '1',
    }
    const file = await standalone.write(
      'events_v2.ndjson',
      `${JSON.stringify({ ...event, 'meta.key': ['plan', "it's"], 'meta.value': ['pro', 'a, b'] })}\n`,
    )
    expect(await importFile('plausible', file)).toMatchObject({ code: 0 })
    expect(await standalone.eventsOf(`from-${file}`)).toMatchObject([{ properties: { plan: 'pro', "it's": 'a, b' } }])
  })

  it('plausible: keeps the revenue of an event', async () => {
    const file = await standalone.write(
      'revenue.csv',
      '"timestamp","name","hostname","pathname","user_id","revenue_source_amount","revenue_source_currency"\n' +
        '"2024-05-01 12:00:00","Order","a.example","/p",1,12.345,"EUR"\n' +
        '"2024-05-01 12:00:01","pageview","a.example","/p",1,\\N,"\0\0\0"\n' +
        '"2024-05-01 12:00:02","Order","a.example","/p",1,much,"EUR"\n',
    )
    const { code, stderr } = await importFile('plausible', file)
    expect([code, stderr]).toEqual([1, expect.stringContaining('Line 4: revenue_source_amount is not a number')])
    const events = await standalone.eventsOf(`from-${file}`)
    expect(events.map(({ properties }) => properties)).toEqual([
      { 'revenue.amount': 12.345, 'revenue.currency': 'EUR' },
      undefined,
    ])
  })

  it('umami: leaves out samples of Web Vitals, and stores nothing twice however the file is packed', async () => {
    const csv = [
      'session_id,visit_id,hostname,url_path,url_query,event_type,event_name,created_at',
      's1,v1,a.example,/p#top,a=1,1,,2024-05-01 12:00:00',
      's1,v1,,/p,,5,,2024-05-01 12:00:01',
      '',
    ].join('\n')
    for (const [name, content] of [
      ['vitals.csv', csv],
      ['vitals.csv.gz', gzipSync(csv)],
    ] as const) {
      await standalone.write(name, content)
      const { code, stdout } = await standalone.run(['import', name, '--from', 'umami', '--site', 'vitals'])
      expect([code, stdout]).toEqual([0, expect.stringContaining('1 of 1 event processed, 0 failed.')])
    }
    expect(await standalone.eventsOf('vitals')).toMatchObject([
      { event_type: 'page_view', url: 'https://a.example/p?a=1#top' },
    ])
  })

  it('umami: says that a file holds no events, and uploads nothing', async () => {
    const header = 'session_id,visit_id,url_path,event_type,created_at\n'
    for (const [name, rows, message] of [
      ['header.csv', '', 'header.csv holds no events to import.'],
      ['only-vitals.csv', 's1,v1,/p,5,2024-05-01 12:00:01\n', 'only-vitals.csv holds no events to import.'],
      ['only-bad.csv', 's1,v1,/p,1,never\n', 'Line 2: created_at is not a time\nsluice: 1 record could not be stored'],
    ] as const) {
      await standalone.write(name, header + rows)
      const result = await standalone.run(['import', name, '--from', 'umami', '--site', 'no-events'])
      expect([name, result]).toEqual([name, { code: 1, stdout: '', stderr: expect.stringContaining(message) }])
    }
  })

  it('umami: takes website_event, and names the lines of the original', async () => {
    const file = await standalone.write(
      'website_event.csv',
      'website_id,session_id,visit_id,event_id,hostname,browser,device,country,url_path,url_query,referrer_domain,referrer_path,page_title,event_type,event_name,created_at\n' +
        'w,s1,v1,e1,a.example,chrome,laptop,DE,/p,a=1,google.com,/search,"Two\nlines",1,,2024-05-01 12:00:00\n' +
        'w,s1,v1,e2,a.example,chrome,laptop,DE,/p,,,,T,2,signup,2024-05-01 14:00:05.25+02\n' +
        'w,s1,v1,e3,a.example,chrome,laptop,DE,/p,,,,T,2,signup,never\n' +
        `w,s1,v1,${'e'.repeat(65)},a.example,chrome,laptop,DE,/p,,,,T,2,signup,2024-05-01 12:00:00\n`,
    )
    const { code, stdout, stderr } = await importFile('umami', file)
    expect([code, stdout]).toEqual([1, expect.stringContaining('4 of 4 events processed, 2 failed.')])
    expect(stderr).toContain('Line 5: created_at is not a time\nLine 6: Invalid field: event_id')
    const errorsFile = `${file}.errors`
    const more = ['--from', 'umami', '--site', `from-${file}`, '--no-wait', '--errors-file', errorsFile]
    const unawaited = await standalone.run(['import', file, ...more])
    expect([unawaited.code, unawaited.stdout]).toEqual([1, expect.stringMatching(/^imp_\w+\n$/)])
    expect(unawaited.stderr).toContain('1 record could not be stored')
    expect(await readFile(join(standalone.folder, errorsFile), 'utf8')).toBe(
      'line,field,message,record\n5,,created_at is not a time,\n',
    )
    expect(await standalone.eventsOf(`from-${file}`)).toMatchObject([
      {
        event_id: 'e1',
        event_type: 'page_view',
        timestamp: Date.UTC(2024, 4, 1, 12),
        anonymous_id: 's1',
        session_id: 'v1',
        url: 'https://a.example/p?a=1',
        referrer: 'https://google.com/search',
        device_type: 'desktop',
        properties: { title: 'Two\nlines', browser: 'chrome' },
      },
      { event_id: 'e2', event_type: 'signup', timestamp: Date.UTC(2024, 4, 1, 12, 0, 5, 250) },
    ])
  })

  it.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
  ])(
    'names the lines of the original after empty lines and line breaks within quotes, which end in %s',
    async (name, end) => {
      const rows = [
        '',
        'session_id,visit_id,event_id,url_path,page_title,event_type,created_at',
        's1,v1,e1,/p,"Two\r\nlines",1,2024-05-01 12:00:00',
        '',
        '',
        's1,v1,e2,/p,T,1,never',
        `s1,v1,${'e'.repeat(65)},/p,T,1,2024-05-01 12:00:00`,
        's1,v1,e4,/p,T,1',
        '',
      ]
      const { code, stderr } = await importFile('umami', await standalone.write(`places-${name}.csv`, rows.join(end)))
      expect(code).toBe(1)
      expect(stderr).toContain(
        'Line 7: created_at is not a time\nLine 8: Invalid field: event_id exceeds maximum length of 64\nLine 9: has another number of fields than the header',
      )
      const broken = ['session_id,url_path,created_at', '"a\r\nb",/p,2024-05-01', '"c"d,/p,2024-05-01', '']
      const refused = await importFile('umami', await standalone.write(`broken-${name}.csv`, broken.join(end)))
      expect(refused).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/not valid CSV \(.* at line 4 .*export it again/),
      })
    },
  )

  it('umami: takes lines that end in different ways', async () => {
    const file = await standalone.write(
      'mixed.csv',
      'session_id,url_path,event_type,created_at,distinct_id\r\n' +
        's1,/p,1,2024-05-01 12:00:00,ada\n' +
        's2,/p,1,2024-05-01 12:00:01,grace\r\n' +
        's3,/p,1,2024-05-01 12:00:02,\n',
    )
    expect(await importFile('umami', file)).toMatchObject({ code: 0 })
    const events = await standalone.eventsOf(`from-${file}`)
    expect(events.map(({ user_id: userId = null }) => userId)).toEqual(['ada', 'grace', null])
  })

  it('keeps the ids that events had in earlier versions', async () => {
    const rows = (...ends: string[]): string =>
      [
        'session_id,url_path,event_type,created_at',
        ...['one', 'two', 'three'].map((name) => `s,/${name},1,2024-05-01 12:00:00`),
      ]
        .map((line, n) => line + (ends[n] ?? ''))
        .join('')
    for (const [name, text, lines] of [
      ['former-lf.csv', rows('\n', '\n\n', '\n', '\n'), [2, 3, 5]],
      ['former-mixed.csv', rows('\n', '\r\n', '\r\n', '\r\n'), [2, 4, 6]],
      ['former-cr.csv', rows('\r', '\r', '\r', '\r'), [2, 3, 4]],
    ] as const) {
      await standalone.write(name, text)
      expect([name, await importFile('umami', name)]).toEqual([name, expect.objectContaining({ code: 0 })])
      const hash = createHash('sha256').update(text).digest('hex').slice(0, 24)
      const events = await standalone.eventsOf(`from-${name}`)
      expect([name, events.map((event) => event.event_id).sort()]).toEqual([
        name,
        lines.map((line) => `umami-${hash}-${line}`),
      ])
    }
  })

  it('takes a CR within a field, and names the lines of UTF-16', async () => {
    const text = 'session_id,url_path,page_title,created_at\ns1,/p,a\rb,2024-05-01 12:00:00\ns2,/p,T,never\n'
    const file = await standalone.write('utf-16.csv', Buffer.from(`\uFEFF${text}`, 'utf16le'))
    const { code, stderr } = await importFile('umami', file)
    expect([code, stderr]).toEqual([1, expect.stringContaining('Line 4: created_at is not a time')])
    expect(await standalone.eventsOf(`from-${file}`)).toMatchObject([{ properties: { title: 'a\rb' } }])
  })

  it('reports what could not be converted when the wait is interrupted', async () => {
    const file = await standalone.write(
      'interrupted.csv',
      'session_id,url_path,event_type,created_at\ns1,/p,1,never\ns1,/p,1,2024-05-01 12:00:00\n',
    )
    const { code, stderr } = await standalone.run(
      ['import', file, '--from', 'umami', '--site', 'interrupted', '--errors-file', 'interrupted.errors'],
      { env: { SLUICE_API_KEY: await createSlowKey() }, until: ({ stderr: text }) => text.includes('Trying again') },
    )
    expect(code).toBe(130)
    expect(stderr).toMatch(/Line 2: created_at is not a time\n.*"sluice import --job imp_\w+" waits for it/s)
    expect(await readFile(join(standalone.folder, 'interrupted.errors'), 'utf8')).toBe(
      'line,field,message,record\n2,,created_at is not a time,\n',
    )
  })

  it('posthog: takes JSON Lines and the CSV of a query', async () => {
    const properties = {
      $current_url: 'https://a.example/',
      $device_id: 'd1',
      $session_id: 's1',
      $referrer: '$direct',
      $browser: 'Chrome',
      plan: 'pro',
    }
    const json = await standalone.write(
      'posthog.jsonl',
      [
        { uuid: 'u1', event: '$pageview', distinct_id: 'ada', timestamp: '2024-05-01T12:00:00.123456Z', properties },
        { uuid: 'u2', event: 'signup', distinct_id: 'd1', timestamp: '2024-05-01 12:00:01+00:00', properties },
      ]
        .map((event) => JSON.stringify(event))
        .join('\n'),
    )
    expect(await importFile('posthog', json)).toMatchObject({ code: 0 })
    const events = [
      {
        event_id: 'u1',
        event_type: 'page_view',
        timestamp: Date.UTC(2024, 4, 1, 12, 0, 0, 123),
        user_id: 'ada',
        anonymous_id: 'd1',
        session_id: 's1',
        url: 'https://a.example/',
        properties: { browser: 'Chrome', plan: 'pro' },
      },
      { event_id: 'u2', event_type: 'signup', anonymous_id: 'd1' },
    ]
    const stored = await standalone.eventsOf(`from-${json}`)
    expect(stored).toMatchObject(events)
    expect(stored.map((event) => [event.user_id, event.referrer])).toEqual([
      ['ada', undefined],
      [undefined, undefined],
    ])
    const quoted = JSON.stringify(properties).replaceAll('"', '""')
    const csv = await standalone.write(
      'posthog.csv',
      `uuid,event,properties,timestamp,distinct_id\nu1,$pageview,"${quoted}",2024-05-01T12:00:00.123456Z,ada\nu2,signup,"${quoted}",2024-05-01T12:00:01Z,d1\n`,
    )
    expect(await importFile('posthog', csv)).toMatchObject({ code: 0 })
    expect(await standalone.eventsOf(`from-${csv}`)).toMatchObject(events)
  })

  it('posthog: leaves out what its clients send by themselves, so that a session of one page view is a bounce', async () => {
    const properties = { $session_id: 's1', $device_id: 'd1' }
    const names = ['$pageview', '$web_vitals', '$feature_flag_called', '$set', '$$heatmap', '$pageleave']
    const lines = names.map((event, at) =>
      JSON.stringify({ event, distinct_id: 'd1', timestamp: `2024-05-01T12:00:0${at}Z`, properties }),
    )
    const file = await standalone.write('machine-events.jsonl', lines.join('\n'))
    const { code, stdout } = await importFile('posthog', file)
    expect([code, stdout]).toEqual([0, expect.stringContaining('1 of 1 event processed, 0 failed.')])
    const range = ['--start', '2024-05-01', '--end', '2024-05-02']
    const asked = await standalone.run(['stats', 'bounce_rate', '--site', `from-${file}`, ...range, '--csv'])
    expect(asked.stdout).toMatch(/,100\n$/)
  })

  it('posthog: keeps screens, versions, groups, exceptions, surveys, and what is known of a user', async () => {
    const records: [event: string, properties: object][] = [
      ['$screen', { $screen_name: 'Cart', $app_version: '1.2', $groups: { company: 'acme' }, $lib_version: '9' }],
      ['$identify', { $set: { plan: 'pro', name: 'Ada', $initial_referrer: 'x' }, $set_once: { first: 1 }, step: 2 }],
      ['$exception', { $exception_type: 'TypeError', $exception_message: 'é'.repeat(3_000), os: 'own', $os: 'iOS' }],
      [
        '$exception',
        { $exception_types: ['RangeError', 'Error'], $exception_values: ['too far'], $screen_name: 'Pay' },
      ],
      ['survey sent', { $survey_id: 's1', $survey_response: 'good', $survey_questions: ['?'.repeat(3_000)] }],
      ['$identify', { $set: { bio: 'é'.repeat(3_000), plan: 'pro', ['n'.repeat(200)]: 1 }, plan: 'free' }],
      [
        '$identify',
        { $set: Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`member_${at}`, at])), step: 3 },
      ],
    ]
    const file = await standalone.write(
      'kept.jsonl',
      records
        .map(([event, properties], at) =>
          JSON.stringify({ event, distinct_id: 'ada', timestamp: `2024-05-01T12:00:0${at}Z`, properties }),
        )
        .join('\n'),
    )
    expect(await importFile('posthog', file)).toMatchObject({ code: 0, stderr: expect.not.stringContaining('Line') })
    const events = await standalone.eventsOf(`from-${file}`)
    expect(events.map(({ event_type: type, properties }) => [type, properties])).toEqual([
      ['screen_view', { name: 'Cart', app_version: '1.2', 'groups.company': 'acme' }],
      ['identify', { plan: 'pro', name: 'Ada', step: 2 }],
      ['$exception', { exception_type: 'TypeError', exception_message: 'é'.repeat(2_048), os: 'own' }],
      ['$exception', { exception_type: 'RangeError', exception_message: 'too far', screen_name: 'Pay' }],
      ['survey sent', { survey_id: 's1', survey_response: 'good' }],
      ['identify', { bio: 'é'.repeat(2_048), plan: 'free' }],
      ['identify', expect.objectContaining({ member_0: 0, step: 3 })],
    ])
  })

  it('posthog: counts nobody who is not identified as a user, such as a visitor after posthog.reset()', async () => {
    const lines = [
      ['u1', true],
      ['u2', false],
    ].map(([id, isIdentified], at) =>
      JSON.stringify({
        event: '$pageview',
        distinct_id: id,
        timestamp: `2024-05-01T12:00:0${at}Z`,
        properties: { $device_id: 'd1', $is_identified: isIdentified },
      }),
    )
    const file = await standalone.write('reset.jsonl', lines.join('\n'))
    expect(await importFile('posthog', file)).toMatchObject({ code: 0 })
    const events = await standalone.eventsOf(`from-${file}`)
    expect(events.map((event) => [event.user_id, event.anonymous_id])).toEqual([
      ['u1', 'd1'],
      [undefined, 'u2'],
    ])
  })

  it('posthog: takes an event that is named as a member of every object', async () => {
    const event = { event: 'constructor', distinct_id: 'ada', timestamp: '2024-05-01T12:00:00Z', properties: {} }
    const json = await standalone.write('member.jsonl', JSON.stringify(event))
    expect(await importFile('posthog', json)).toMatchObject({ code: 0 })
    expect(await standalone.eventsOf(`from-${json}`)).toMatchObject([{ event_type: 'constructor', user_id: 'ada' }])
  })

  it('posthog: keeps every digit, and refuses a number in place of an object', async () => {
    const properties = '{"order":1234567890123456789,"$lib":"web"}'
    const [id, time] = ['9007199254740993', '2024-05-01T12:00:00Z']
    const json = await standalone.write(
      'digits.jsonl',
      `{"uuid":"u1","event":"buy","distinct_id":${id},"timestamp":"${time}","properties":${properties}}\n` +
        '12345678901234567890\n' +
        `{"uuid":"u2","event":"none","distinct_id":"ada","timestamp":"${time}","properties":12345678901234567890}\n`,
    )
    expect(await importFile('posthog', json)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Line 2: is not a JSON object\n'),
    })
    const csv = await standalone.write(
      'digits.csv',
      `uuid,event,properties,timestamp,distinct_id\nu1,buy,"${properties.replaceAll('"', '""')}",${time},${id}\n`,
    )
    expect(await importFile('posthog', csv)).toMatchObject({ code: 0 })
    for (const file of [json, csv]) {
      const [event, ...others] = await standalone.eventsOf(`from-${file}`)
      expect(event).toMatchObject({ event_id: 'u1', user_id: id })
      expect(others.map((other) => other.properties)).toEqual(file === json ? [undefined] : [])
      const range = ['--start', '2024-05-01', '--end', '2024-05-02']
      const orders = ['stats', '--site', `from-${file}`, ...range, '-g', 'properties.order', '--csv']
      expect((await standalone.run(orders)).stdout).toContain(',1234567890123456789,1')
    }
  })
})
