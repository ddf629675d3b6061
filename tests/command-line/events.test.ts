import { spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import {
  program,
  repository,
  type Run,
  type Standalone,
  startMsMax,
  startProxy,
  startStandalone,
} from './standalone.ts'

let standalone: Standalone

beforeAll(async () => {
  standalone = await startStandalone()
}, startMsMax)

afterAll(() => standalone.stop())

describe('send', () => {
  it('prints the id and the timestamp of an event that is stored with all of its fields', async () => {
    const options = ['--user', 'ada', '--session', 's1', '--page-url', 'https://x.example/', '--country', 'de']
    const properties = ['-p', 'plan=pro', '-p', 'seats:=5', '-p', 'ok:=true', '-p', 'note=a=b']
    const { code, stdout } = await standalone.run(['send', 'signup', '--site', 'send', ...options, ...properties])
    expect(code).toBe(0)
    const [id, timestamp] = stdout.trim().split('\t')
    const [event] = await standalone.waitForEvents('send', 1)
    expect(event).toMatchObject({
      event_id: id,
      timestamp: Number(timestamp),
      event_type: 'signup',
      user_id: 'ada',
      session_id: 's1',
      url: 'https://x.example/',
      country: 'DE',
      properties: { plan: 'pro', seats: 5, ok: true, note: 'a=b' },
    })
  })

  it('takes an event as JSON, and prints JSON', async () => {
    const event = '{"site_id":"send-json","event_type":"signup","event_id":"e1","timestamp":1767225600000}'
    const { code, stdout } = await standalone.run(['send', event, '--json'])
    expect([code, JSON.parse(stdout)]).toEqual([0, { event_id: 'e1', timestamp: 1_767_225_600_000 }])
    expect(await standalone.waitForEvents('send-json', 1)).toHaveLength(1)
  })

  it('adds the properties of options to those of an event that is given as JSON', async () => {
    const event = '{"event_type":"x","properties":{"plan":"pro","seats":4}}'
    const { code } = await standalone.run(['send', event, '--site', 'both', '-p', 'seats:=5', '-p', 'trial:=true'])
    expect(code).toBe(0)
    expect(await standalone.waitForEvents('both', 1)).toMatchObject([
      { properties: { plan: 'pro', seats: 5, trial: true } },
    ])
  })

  it('keeps every digit of an event that is given as JSON, and of a property', async () => {
    const event =
      '{"event_type":"x","order":1234567890123456789,"nested":{"list":[9007199254740993,1.0000000000000000001e-40]},"price":0.1234567890123456789}'
    const { code } = await standalone.run(['send', event, '--site', 'digits', '-p', 'account:=-9223372036854775807'])
    expect(code).toBe(0)
    await standalone.waitForEvents('digits', 1)
    for (const [property, text] of [
      ['order', '1234567890123456789'],
      ['nested.list', '"[9007199254740993,1.0000000000000000001e-40]"'],
      ['price', '0.1234567890123456789'],
      ['account', '-9223372036854775807'],
    ] as const) {
      const { stdout } = await standalone.run(['stats', '--site', 'digits', '-g', `properties.${property}`, '--csv'])
      expect(stdout).toContain(`,${text},1`)
    }
  })

  it('says what is wrong with an option that an action reads', async () => {
    expect(await standalone.run(['keys', 'rotate', 'key_x', '--overlap', 'soon'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Give a duration like'),
    })
  })

  it('gives an event with an empty id one of its own', async () => {
    const { code, stdout } = await standalone.run(['send', 'x', '--site', 'send-id', '--event-id', ''])
    const [id = ''] = stdout.split('\t')
    expect([code, id]).toEqual([0, expect.stringMatching(/^[\da-f-]{36}$/)])
    expect(await standalone.waitForEvents('send-id', 1)).toMatchObject([{ event_id: id }])
  })

  it('gives an event with an empty site the one of the settings, as on standard input', async () => {
    const event = '{"event_type":"x","site_id":null}'
    const env = { SLUICE_SITE: 'send-no-site' }
    expect(await standalone.run(['send', event], { env })).toMatchObject({ code: 0 })
    expect(await standalone.run(['send', '-'], { env, input: event })).toMatchObject({ code: 0 })
    await standalone.waitForEvents('send-no-site', 2)
  })

  it('prints control characters of an id as text', async () => {
    const { stdout } = await standalone.run(['send', 'x', '--site', 'send', '--event-id', 'a\u001b[31m\nb'])
    expect(stdout).toMatch(/^a\\u001b\[31m\\u000ab\t\d+\n$/)
  })

  it('says what is wrong with an event', async () => {
    expect(await standalone.run(['send', '{"x', '--site', 'send'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('not valid JSON'),
    })
    for (const json of ['[]', '[{"event_type":"x"}]', '5', '12345678901234567890', '"x"', 'null']) {
      expect([json, await standalone.run(['send', json, '--site', 'send-none'])]).toEqual([
        json,
        { code: 2, stdout: '', stderr: expect.stringContaining('not an object: give one like') },
      ])
    }
    expect(await standalone.run(['send', 'x', '--site', 'send', '--country', 'xyz'])).toMatchObject({
      code: 1,
      stderr: 'sluice: Invalid field: country must be 2 letters or digits\n',
    })
    expect(await standalone.run(['send', 'x', '-p', 'plan'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('name=text'),
    })
    expect(await standalone.run(['send', 'x', '--site', 'send', '-t', '-5'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Give Unix milliseconds'),
    })
    const otherSite = await standalone.run(['send', 'x', '--site', 'send'], {
      env: { SLUICE_API_KEY: standalone.shopKey },
    })
    expect(otherSite).toMatchObject({ code: 4, stderr: expect.stringContaining('bound to other sites') })
  })

  it('ends after a signal while the program before the pipe goes on, and has stored what was read', async () => {
    const ended = await standalone.run(['send', '-', '--site', 'open'], {
      input: '{"event_type":"a"}\n',
      isInputOpen: true,
      until: ({ stdout }) => stdout !== '',
    })
    expect(ended).toMatchObject({ code: 130, stderr: 'Read 1 event and stored 1.\n' })
    await standalone.waitForEvents('open', 1)
  })

  it('waits for a Sluice in whose place a proxy answers', async () => {
    let refusals = 3
    const proxy = await startProxy(standalone.service.url, () => (refusals-- > 0 ? 502 : undefined))
    const sent = standalone.run(['send', '-', '--site', 'proxy'], { env: proxy.env, input: '{"event_type":"a"}\n' })
    const { code, stderr } = await sent.finally(proxy.stop)
    expect([code, stderr]).toEqual([0, expect.stringContaining('answers 502 instead of Sluice')])
    await standalone.waitForEvents('proxy', 1)
  })

  it('says how many events are stored when it fails before the others', async () => {
    let batches = 0
    const proxy = await startProxy(standalone.service.url, () => (++batches > 1 ? 404 : undefined))
    const input = '{"event_type":"a"}\n'.repeat(150)
    const { code, stderr } = await standalone.run(['send', '-', '--site', 'part'], { env: proxy.env, input })
    proxy.stop()
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^Read 150 events and stored 100\.\nsluice: /)])
  })

  it('sends in smaller requests what a proxy refuses as too large', async () => {
    const proxy = await startProxy(standalone.service.url, (_url, body) => (body.length > 20_000 ? 413 : undefined))
    const event = (size: number): string => `{"event_type":"a","note":"${'x'.repeat(size)}"}\n`
    const input = event(1_000).repeat(100) + event(25_000)
    const sent = standalone.run(['send', '-', '--site', 'small'], { env: proxy.env, input })
    const { code, stdout, stderr } = await sent.finally(proxy.stop)
    expect([code, stderr]).toEqual([
      1,
      `Line 101: A proxy at ${proxy.env.SLUICE_URL} refuses the request as too large: raise its limit of request bodies.\n` +
        'sluice: 1 of 101 events could not be stored: the reasons are above.\n',
    ])
    expect(stdout.trim().split('\n')).toHaveLength(100)
    await standalone.waitForEvents('small', 100)
  })

  it('stores the lines that follow when the reader of its output has ended', async () => {
    const command = `set -o pipefail; "${process.execPath}" "${program}" send - --site unread | head -n 1`
    const env = { PATH: process.env.PATH, SLUICE_URL: standalone.service.url, SLUICE_API_KEY: standalone.key }
    const child = spawn('bash', ['-c', command], { env, stdio: ['pipe', 'pipe', 'inherit'] })
    child.stdin.write('{"event_type":"a"}\n')
    await standalone.waitForEvents('unread', 1)
    for (const type of ['b', 'c']) {
      child.stdin.write(`{"event_type":"${type}"}\n`)
      await standalone.waitForEvents('unread', type === 'b' ? 2 : 3)
    }
    const closed = new Promise((resolve) => child.once('close', resolve))
    child.stdin.end()
    expect(await closed).toBe(0)
  })

  it('stores all lines when the reader of its output stalls, and then ends', async () => {
    const gate = join(standalone.folder, 'gate')
    // The reader reads nothing, and ends when something is written into the gate.
    const reader = `{ read -r _ <&3; } 3<"${gate}"`
    const command = `set -o pipefail; mkfifo "${gate}"; "${process.execPath}" "${program}" send - --site stalled | ${reader}`
    const env = { PATH: process.env.PATH, SLUICE_URL: standalone.service.url, SLUICE_API_KEY: standalone.key }
    const child = spawn('bash', ['-c', command], { env, stdio: ['pipe', 'inherit', 'inherit'] })
    const closed = new Promise((resolve) => child.once('close', resolve))
    // The output for these events fills the pipe and the buffer before it.
    child.stdin.end('{"event_type":"a"}\n'.repeat(5_000))
    const counted = async () => {
      const { stdout } = await standalone.run(['stats', '--site', 'stalled', '--period', '1h', '--csv'])
      return Number(stdout.trim().split(',').at(-1))
    }
    let before = 0
    await waitUntil(async () => {
      const now = await counted()
      if (now > 0 && now === before) return true
      before = now
      return false
    }, 'no further events are sent')
    expect(before).toBeLessThan(5_000)
    await writeFile(gate, '\n')
    expect(await closed).toBe(0)
    await waitUntil(async () => (await counted()) === 5_000, 'all events are counted')
  })

  it('stores the lines of standard input, names those that it can’t store, and keeps every digit', async () => {
    const lines = [
      '{"event_type":"a","timestamp":1767225600000,"big":12345678901234567890}',
      '',
      'nope',
      '{"event_type":""}',
      `{"event_type":"b","note":"${'x'.repeat(40_000)}"}`,
      '{"event_type":"c"}',
    ]
    const { code, stdout, stderr } = await standalone.run(['send', '-', '--site', 'lines'], { input: lines.join('\n') })
    expect(code).toBe(1)
    expect(stdout.trim().split('\n')).toHaveLength(2)
    expect(stderr.split('\n')).toEqual([
      'Line 3: is not JSON',
      'Line 5: is longer than 32 KiB',
      'Line 4: Missing required field: event_type',
      'sluice: 3 of 5 events could not be stored: the reasons are above.',
      '',
    ])
    await standalone.waitForEvents('lines', 2)
    const csv = await standalone.run([
      'stats',
      '--site',
      'lines',
      '--start',
      '2025-12-31',
      '--end',
      '2026-01-02',
      '-g',
      'properties.big',
      '--csv',
    ])
    expect(csv.stdout).toContain(',12345678901234567890,1')
  })
})

describe('standard output that can’t be written', () => {
  /** This file refuses each write, like a full disk. */
  const outputFile = '/dev/full'
  const message = "sluice: Standard output can't be written: ENOSPC: no space left on device, write\n"
  const lostKey = (id: string): string =>
    `sluice: The key ${id} was created but could not be printed, so nobody has it: revoke it with "sluice keys revoke ${id} --yes", ` +
    `or replace it by one that is printed with "sluice keys rotate ${id} --overlap 0s --yes".\n`

  /** Runs a command whose standard output or standard error is a pipe whose reader has ended. */
  async function runUnread(args: string, stream: 1 | 2 = 1): Promise<Run> {
    const command = `exec 3> >(exec true); wait $!; exec "${process.execPath}" "${program}" ${args} ${stream}>&3`
    const env = { PATH: process.env.PATH, SLUICE_URL: standalone.service.url, SLUICE_API_KEY: standalone.key }
    const child = spawn('bash', ['-c', command], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve))
    const [stdout, stderr] = await Promise.all([
      child.stdout.setEncoding('utf8').toArray(),
      child.stderr.setEncoding('utf8').toArray(),
    ])
    return { code: await closed, stdout: stdout.join(''), stderr: stderr.join('') }
  }

  it('is named at the end of a command, which fails', async () => {
    await standalone.run(['send', 'x', '--site', 'full'])
    await standalone.waitForEvents('full', 1)
    for (const args of [['stats', '--site', 'full', '--csv'], ['tail', '--site', 'full', '--no-follow'], ['--help']]) {
      expect([args, await standalone.run(args, { outputFile })]).toEqual([
        args,
        { code: 1, stdout: '', stderr: message },
      ])
    }
  })

  it('leaves a new key behind, of which the command says that it is lost, and how to end or replace it', async () => {
    const lost = async (...args: string[]): Promise<string> => {
      const { code, stderr } = await standalone.run(['keys', ...args], { outputFile })
      const [, id = ''] = /^sluice: The key (key_\w+) was created/m.exec(stderr) ?? []
      expect([code, stderr]).toEqual([1, expect.stringContaining(lostKey(id))])
      expect(stderr.endsWith(message)).toBe(true)
      return id
    }
    const created = await lost('create', 'lost')
    await lost('create', 'lost-record', '--json')
    const replaced = await lost('rotate', created)
    const last = await lost('rotate', replaced, '--overlap', '0s', '--yes')
    const again = await standalone.run(['keys', 'rotate', last, '--overlap', '0s', '--yes'])
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^svc_prod_\w+\n$/) })
    expect(await standalone.run(['keys', 'revoke', created, '--yes'])).toMatchObject({ code: 0 })
  })

  it('is a pipe without a reader: the commands end quietly, with the code of a closed pipe', async () => {
    await standalone.run(['send', 'x', '--site', 'full'])
    await standalone.waitForEvents('full', 1)
    for (const args of ['stats --site full --json', 'tail --site full', 'keys list', '--help']) {
      expect([args, await runUnread(args)]).toEqual([args, { code: 141, stdout: '', stderr: '' }])
    }
    expect(await runUnread('types --site full')).toEqual({
      code: 141,
      stdout: '',
      stderr: 'Reading 1 event type (0 %)\n',
    })
    expect(await runUnread('send x --site full')).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  it('is a pipe without a reader, and the new key is lost: that is said', async () => {
    const { code, stderr } = await runUnread('keys create unread')
    const [, id = ''] = /The key (key_\w+) was created/.exec(stderr) ?? []
    expect([code, stderr]).toEqual([1, expect.stringContaining(lostKey(id))])
  })

  it('is not standard error, without whose reader commands go on and end with their own code', async () => {
    expect(await runUnread('stats --site full --csv', 2)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^start_date,end_date,value\n/),
    })
    expect(await runUnread('keys create unread-notes', 2)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^svc_prod_\w+\n$/),
    })
    expect(await runUnread('stats --site nowhere', 2)).toMatchObject({ code: 1, stdout: '' })
  })

  it('ends what would follow events', async () => {
    await standalone.run(['send', 'x', '--site', 'full'])
    await standalone.waitForEvents('full', 1)
    expect(await standalone.run(['tail', '--site', 'full'], { outputFile })).toEqual({
      code: 1,
      stdout: '',
      stderr: message,
    })
  })

  it('ends no command that stores: all batches are sent', async () => {
    const input = '{"event_type":"a"}\n'.repeat(250)
    const { code, stderr } = await standalone.run(['send', '-', '--site', 'full-send'], { outputFile, input })
    expect([code, stderr]).toEqual([1, `Stored 250 events.\n${message}`])
    await standalone.waitForEvents('full-send', 250)
  })

  it('is found when the disk takes only the beginning of a text', async () => {
    // Files are limited to 1 KiB, and the help text is longer. Node's compile cache is off, because it would exceed the
    // limit, too.
    const command = `trap '' XFSZ; ulimit -f 1; exec "${process.execPath}" "${program}" stats --help > short`
    const child = spawn('bash', ['-c', command], {
      cwd: standalone.folder,
      env: { PATH: process.env.PATH, NODE_DISABLE_COMPILE_CACHE: '1' },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const closed = new Promise((resolve) => child.once('close', resolve))
    const stderr = (await child.stderr.setEncoding('utf8').toArray()).join('')
    expect([await closed, stderr]).toEqual([
      1,
      "sluice: Standard output can't be written: EFBIG: file too large, write\n",
    ])
    expect(await readFile(join(standalone.folder, 'short'), 'utf8')).toHaveLength(1_024)
  })
})

describe('tail', () => {
  it('prints the latest events and each new one until Ctrl-C, and control characters as text', async () => {
    await standalone.run(['send', 'first\u001b[31m', '--site', 'tail'])
    await standalone.waitForEvents('tail', 1)
    let sent: Promise<Run> | undefined
    const { code, stdout } = await standalone.run(['tail', '--site', 'tail'], {
      until: (output) => {
        if (output.stdout !== '') sent ??= standalone.run(['send', 'second', '--site', 'tail', '--user', 'ada'])
        return output.stdout.includes('second')
      },
    })
    await sent
    expect(code).toBe(130)
    expect(stdout).toMatch(/first\\u001b\[31m\n.*second {2}user_id=ada\n$/)
  })

  it('prints every digit of a number', async () => {
    const event = '{"event_type":"x","big":12345678901234567890,"price":0.1234567890123456789}\n'
    await standalone.run(['send', '-', '--site', 'tail-digits'], { input: event })
    await standalone.waitForEvents('tail-digits', 1)
    for (const options of [[], ['--json']]) {
      const { stdout } = await standalone.run(['tail', '--site', 'tail-digits', '--no-follow', ...options])
      expect(stdout).toContain('{"big":12345678901234567890,"price":0.1234567890123456789}')
    }
  })

  it('tells how many events it skipped', async () => {
    // Without ids they go to one partition of the log, and become visible at once.
    const events = Array.from({ length: 100 }, (_each, at) => ({
      site_id: 'fast',
      event_type: 'fast',
      timestamp: Date.now() + at,
    }))
    const send = (): Promise<Response> =>
      fetch(`${standalone.service.url}/collect/batch`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${standalone.key}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ events }),
      })
    let sent: Promise<Response> | undefined
    const { stderr, stdout } = await standalone.run(['tail', '--site', 'fast', '--json'], {
      // The key registers the site, which has no events yet.
      env: { SLUICE_API_KEY: await standalone.createKey('fast', '--sites', 'fast') },
      until: (output) => {
        if (output.stderr.includes('Waiting')) sent ??= send()
        return seenAndSkipped(output) === 100
      },
    })
    expect((await sent)?.status).toBe(202)
    expect(seenAndSkipped({ stdout, stderr })).toBe(100)
    expect(stderr).toContain('Skipped 50 events')
    for (const line of stdout.trim().split('\n')) expect(JSON.parse(line)).toMatchObject({ event_type: 'fast' })
  })

  it('ends quietly when the reader of its output ends', async () => {
    const command = `set -o pipefail; "${process.execPath}" "${program}" tail --site tail | head -n 1`
    const env = { PATH: process.env.PATH, SLUICE_URL: standalone.service.url, SLUICE_API_KEY: standalone.key }
    const child = spawn('bash', ['-c', command], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const closed = new Promise((resolve) => child.once('close', resolve))
    const stderr = child.stderr.setEncoding('utf8').toArray()
    // An event after the one that `head` prints meets a closed pipe.
    await waitUntil(async () => {
      await standalone.run(['send', 'later', '--site', 'tail'])
      return child.exitCode !== null
    }, 'the command ends')
    expect([await closed, (await stderr).join('')]).toEqual([141, ''])
  })

  function seenAndSkipped({ stdout, stderr }: { stdout: string; stderr: string }): number {
    const skipped = [...stderr.matchAll(/Skipped (\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0)
    return stdout.split('\n').length - 1 + skipped
  }
})

describe('stats', () => {
  beforeAll(async () => {
    const input = [
      '{"event_type":"view","timestamp_ms":1767225600000,"user_id":"u1","country":"DE"}',
      '{"event_type":"view","timestamp_ms":1767315600000,"user_id":"u2","properties":{"plan":"=1+1"}}',
      '{"event_type":"buy","timestamp_ms":1767315600001,"user_id":"u2"}',
    ]
    await standalone.run(['import', '-', '--site', 'stats'], { input: input.join('\n') })
  })
  const ask = (...args: string[]): Promise<Run> =>
    standalone.run(['stats', ...args, '--site', 'stats', '--start', '2026-01-01', '--end', '2026-01-03'])

  it('prints a table by day, with zeros', async () => {
    expect(await ask('unique_users', '-g', 'day')).toStrictEqual({
      code: 0,
      stderr: '',
      stdout: [
        'unique_users of stats: 2',
        '2026-01-01 00:00 to 2026-01-03 00:00, UTC',
        '',
        'day         unique_users',
        '2026-01-01             1',
        '2026-01-02             1',
        '',
      ].join('\n'),
    })
  })

  it('prints types, groups by value and comparisons', async () => {
    const { stdout } = await ask('event_count_by_type', '--compare', 'previous_period')
    expect(stdout).toContain('before: 0, 2025-12-30 00:00 to 2026-01-01 00:00')
    expect(stdout).toMatch(/event_type +event_count_by_type +before\nview +2 +0\nbuy +1 +0\n$/)
    expect((await ask('event_count', '-g', 'country')).stdout).toMatch(/\(none\) +2\nDE +1\n$/)
  })

  it('writes comparisons to CSV, too', async () => {
    const compared = ['--compare', 'previous_period', '--csv']
    expect((await ask('event_count', ...compared)).stdout).toMatch(/^start_date,end_date,value,before\n\d+,\d+,3,0\n$/)
    expect((await ask('unique_users', '-g', 'day', ...compared)).stdout).toBe(
      'timestamp,value,before\n1767225600000,1,0\n1767312000000,1,0\n',
    )
    expect((await ask('event_count_by_type', ...compared)).stdout).toMatch(/,event_type,value,before\n.*,view,2,0\n/)
  })

  describe('compares', () => {
    const before = async (...args: string[]): Promise<string[]> => {
      const { stdout } = await standalone.run(['stats', 'event_count', '--site', 'compared', '--csv', ...args])
      const rows = stdout.trim().split('\n').slice(1)
      // Without the times.
      return rows.map((row) => row.slice(row.indexOf(',') + 1))
    }
    beforeAll(async () => {
      const days = ['2023-03-01', '2025-06-03', '2026-03-23', '2026-03-23'].map((day) => ({ at: `${day}T12:00Z` }))
      const groups = [
        ...['DE', 'FR', 'FR', 'FR'].map((country) => ({ at: '2026-01-19T12:00Z', country })),
        ...['DE', 'DE', 'DE', 'FR', 'IT'].map((country) => ({ at: '2026-01-20T12:00Z', country })),
        ...['(other)', '(other)', '(other)', 'a'].map((plan) => ({ at: '2026-01-22T12:00Z', properties: { plan } })),
        ...['(other)', '(other)', 'a'].map((plan) => ({ at: '2026-01-23T12:00Z', properties: { plan } })),
      ]
      const events = [...days, { at: '2026-03-22T22:30Z' }, ...groups].map(({ at, ...fields }) => ({
        event_type: 'x',
        timestamp_ms: Date.parse(at),
        ...fields,
      }))
      const input = events.map((event) => JSON.stringify(event)).join('\n')
      await standalone.run(['import', '-', '--site', 'compared'], { input })
    })

    it('days with whole days of the period before, also when clocks have changed', async () => {
      const range = ['--start', '2026-03-30', '--end', '2026-04-06', '--timezone', 'Europe/Berlin']
      const rows = await before(...range, '-g', 'day', '--compare', 'previous_period')
      expect(rows).toStrictEqual(['0,2', ...Array<string>(6).fill('0,0')])
    })

    it('weeks and days with those of about the same date a year before', async () => {
      const compare = ['--compare', 'previous_year', '-g']
      expect(await before('--start', '2026-06-01', '--end', '2026-06-15', ...compare, 'week')).toStrictEqual([
        '0,1',
        '0,0',
      ])
      // Of a leap year.
      expect(await before('--start', '2024-02-28', '--end', '2024-03-03', ...compare, 'day')).toStrictEqual([
        '0,0',
        '0,0',
        '0,1',
        '0,0',
      ])
    })

    it('groups by name, and the others only when they are the others of the same groups', async () => {
      const over = (start: string, end: string, ...args: string[]) =>
        before('--start', start, '--end', end, '--compare', 'previous_period', ...args)
      const countries = (limit: string) => over('2026-01-20', '2026-01-21', '-g', 'country', '--limit', limit)
      expect(await countries('1')).toStrictEqual(['DE,3,', '(other),2,'])
      expect(await countries('2')).toStrictEqual(['DE,3,1', 'FR,1,3', '(other),1,0'])
      expect(await countries('3')).toStrictEqual(['DE,3,1', 'FR,1,3', 'IT,1,0'])
      const plans = await over('2026-01-23', '2026-01-24', '-g', 'properties.plan', '--limit', '1')
      expect(plans).toStrictEqual(['(other),2,3', '(other),1,1'])
    })
  })

  it('says that no session starts in a range, which may have events', async () => {
    const input = [1_767_225_599_000, 1_767_225_601_000].map((timestamp_ms) =>
      JSON.stringify({ event_type: 'x', timestamp_ms, session_id: 's', country: 'DE' }),
    )
    await standalone.run(['import', '-', '--site', 'begun'], { input: input.join('\n') })
    const range = ['--start', '2026-01-01', '--end', '2026-01-02', '-g', 'country']
    const over = async (metric: string, ...args: string[]) =>
      (await standalone.run(['stats', metric, '--site', 'begun', ...range, ...args])).stdout.split('\n').at(-2)
    for (const metric of ['avg_session_duration', 'bounce_rate', 'conversion_rate'])
      expect(await over(metric)).toBe('No session starts in this range.')
    expect(await over('event_count', '--event-type', 'y')).toBe('No events in this range.')
  })

  it('tells the hours apart that have one name', async () => {
    const range = ['--start', '2026-10-25T01:00', '--end', '2026-10-25T04:00', '--timezone', 'Europe/Berlin']
    const { stdout } = await standalone.run(['stats', '--site', 'stats', ...range, '-g', 'hour'])
    expect(stdout.split('\n').slice(4, -1)).toStrictEqual([
      '2026-10-25 01:00                  0',
      '2026-10-25 02:00+02:00            0',
      '2026-10-25 02:00+01:00            0',
      '2026-10-25 03:00                  0',
    ])
  })

  it('takes times without an offset as those of the site, or of --timezone', async () => {
    const headers = { Authorization: `Bearer ${standalone.key}`, 'Content-Type': 'application/json' }
    const body = JSON.stringify({ site_id: 'berlin', timezone: 'Europe/Berlin' })
    await fetch(`${standalone.service.url}/api/v1/sites`, { method: 'POST', headers, body })
    const over = async (...args: string[]) =>
      (await standalone.run(['stats', '--site', 'berlin', ...args, '--csv'], { env: { TZ: 'Asia/Tokyo' } })).stdout
    expect(await over('--start', '2026-01-01', '--end', '2026-01-02T12:00')).toContain('1767222000000,1767351600000,0')
    expect(await over('--start', '2026-01-01', '--end', '2026-01-02', '--timezone', 'America/New_York')).toContain(
      '1767243600000,1767330000000,0',
    )
    expect(await over('--start', '2026-01-01T00:00Z', '--end', '1767312000000')).toContain(
      '1767225600000,1767312000000,0',
    )
  })

  it('refuses times that do not exist and zones that are not known', async () => {
    const refused = async (...args: string[]) => {
      const { code, stderr } = await standalone.run(['stats', '--site', 'stats', ...args])
      return [code, stderr]
    }
    for (const start of ['2026-02-30', '20260101', '2026'])
      expect(await refused('--start', start)).toEqual([2, expect.stringContaining('2026-01-31T12:00:00Z')])
    expect(await refused('--start', '2026-01-01', '--timezone', 'Mars/Base')).toEqual([
      2,
      expect.stringContaining('The time zone Mars/Base is not known'),
    ])
  })

  it('names the event that a conversion rate counts', async () => {
    expect((await ask('conversion_rate')).stdout).toBe(
      [
        'conversion_rate of stats: 0.00 %',
        '2026-01-01 00:00 to 2026-01-03 00:00, UTC',
        'sessions with an event of the type purchase',
        '',
      ].join('\n'),
    )
    expect((await ask('conversion_rate', '--target', 'buy')).stdout).toContain('of the type buy\n')
    const response = await fetch(`${standalone.service.url}/api/v1/sites/stats`, {
      method: 'PUT',
      headers: { Authorization: `Bearer ${standalone.key}`, 'Content-Type': 'application/json' },
      body: '{"conversion_event":"signup"}',
    })
    expect(response.status).toBe(200)
    expect((await ask('conversion_rate')).stdout).toContain('of the type signup\n')
  })

  it('prints CSV without formulas, and the answer as JSON', async () => {
    expect((await ask('event_count', '-g', 'properties.plan', '--csv')).stdout).toBe(
      "timestamp,properties.plan,value\n1767225600000,,2\n1767225600000,'=1+1,1\n",
    )
    // An absent value is also empty in the column `key`; only the table has a text in its place.
    const types = await ask('event_count_by_type', '-g', 'properties.plan', '--csv')
    expect(types.stdout.trim().split('\n').toSorted()).toEqual([
      '1767225600000,buy,,1',
      "1767225600000,view,'=1+1,1",
      '1767225600000,view,,1',
      'timestamp,event_type,properties.plan,value',
    ])
    expect((await ask('event_count_by_type', '-g', 'properties.plan')).stdout).toMatch(/^buy +\(none\) +1$/m)
    expect(JSON.parse((await ask('visitors', '--json')).stdout)).toMatchObject({ metric: 'visitors', value: 2 })
  })

  it('takes a period as the time before --end', async () => {
    const range = ['--period', '1h', '--end', '2026-01-01T00:30:00Z']
    expect((await standalone.run(['stats', '--site', 'stats', ...range])).stdout).toBe(
      'event_count of stats: 1\n2025-12-31 23:30 to 2026-01-01 00:30, UTC\n',
    )
  })

  it('refuses a range that does not end after its start as wrong usage', async () => {
    for (const [start, end] of [
      ['2026-01-02', '2026-01-01'],
      ['2026-01-01', '1767225600000'],
      ['2026-01-01T12:00:00Z', '2026-01-01T12:00:00+01:00'],
    ] as const) {
      expect(await standalone.run(['stats', '--site', 'stats', '--start', start, '--end', end])).toEqual({
        code: 2,
        stdout: '',
        stderr: 'sluice: --start is not before --end: give an earlier start, or a later end.\n',
      })
    }
  })

  it('says what to shorten when Sluice, or a proxy, refuses a request as too long', async () => {
    const filter = JSON.stringify([{ property: 'country', operator: 'equals', value: 'x'.repeat(20_000) }])
    expect(await ask('visitors', '--filter', filter)).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'sluice: Request line and headers are larger than 16 KiB, or there are more than 200 headers: shorten the options of the command, such as --filter.\n',
    })
    const proxy = await startProxy(standalone.service.url, () => 414)
    const asked = standalone.run(['stats', '--site', 'stats'], { env: proxy.env })
    expect(await asked.finally(proxy.stop)).toEqual({
      code: 1,
      stdout: '',
      stderr: `sluice: A proxy at ${proxy.env.SLUICE_URL} refuses the request as too long (414): shorten the options of the command, such as --filter, or raise the limit of the proxy.\n`,
    })
  })

  it('says that a proxy may have answered in place of Sluice, and with what', async () => {
    const proxy = await startProxy(standalone.service.url, () => 403)
    const asked = standalone.run(['stats', '--site', 'stats'], { env: proxy.env })
    expect(await asked.finally(proxy.stop)).toEqual({
      code: 1,
      stdout: '',
      stderr: `sluice: ${proxy.env.SLUICE_URL} is not Sluice, or a proxy before it refuses the request (it answers 403, text/html): see the log of the proxy, or set SLUICE_URL to the address of Sluice.\n`,
    })
  })

  it('says what is wrong with a question', async () => {
    expect(await ask('visits')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Allowed choices are event_count'),
    })
    expect(await ask('visitors', '-g', 'colour')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('group_by'),
    })
    expect(await ask('visitors', '--filter', '{}')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('JSON list'),
    })
    expect(await ask('visitors', '--period', '7d')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/'--period <period>' cannot be used with option '--start <time>'/),
    })
    expect(await standalone.run(['stats', '--site', 'nowhere'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Site not found'),
    })
  })
})

describe('types', () => {
  it('writes types that tsc accepts, and that refuse other properties', async () => {
    const input = [
      '{"event_type":"purchase","properties":{"total":12.5,"items":["a"],"gift":true,"id":12345678901234567890,"cart":{"size":2}}}',
      '{"event_type":"purchase","properties":{"total":"12"}}',
      '{"event_type":"sign up"}',
    ]
    await standalone.run(['send', '-', '--site', 'types'], { input: input.join('\n') })
    await standalone.run(['send', 'sluice_doctor', '--site', 'types'])
    await standalone.waitForEvents('types', 4)
    const { code, stderr } = await standalone.run(['types', '--site', 'types', '--out', 'events.ts'])
    expect([code, stderr]).toEqual([0, expect.stringContaining('Wrote 2 event types to events.ts.')])
    expect(await readFile(join(standalone.folder, 'events.ts'), 'utf8')).toBe(
      [
        '// The events of "types", written by "sluice types".',
        'export interface Events {',
        '  purchase: {',
        '    "cart.size"?: number',
        '    gift?: boolean',
        '    id?: number',
        '    items?: string[]',
        '    total?: number | string',
        '  }',
        '  "sign up": Record<string, never>',
        '}',
        '',
      ].join('\n'),
    )
    await standalone.write(
      'use.ts',
      [
        `import type { Events } from './events'`,
        `export const good: Events['purchase'] = { total: 1, 'cart.size': 2 }`,
        `export const bad: Events['purchase'] = { total: true }`,
        `declare const page: import('${repository}/packages/sdk-browser/src/types').Sluice<Events>`,
        `declare const server: import('${repository}/packages/sdk-node/types').Sluice<Events>`,
        `export const good2 = [page.track('sign up'), server.track('sign up'), page.track('purchase', { total: 1 })]`,
        `export const bad2 = page.track('sign up', { plan: 'pro' })`,
        `export const bad3 = server.track('sign up', { plan: 'pro' })`,
      ].join('\n'),
    )
    const tsc = join(repository, 'node_modules/typescript/bin/tsc')
    const child = spawn(process.execPath, [tsc, '--noEmit', '--strict', '--skipLibCheck', 'use.ts'], {
      cwd: standalone.folder,
    })
    const output = (await child.stdout.setEncoding('utf8').toArray()).join('')
    expect([...output.matchAll(/use\.ts\((\d+),/g)].map(([, line]) => line)).toStrictEqual(['3', '7', '8'])
    expect(output.match(/error TS/g)).toHaveLength(3)
  })

  it('says that a site has no events', async () => {
    await standalone.createKey('empty', '--sites', 'empty')
    expect(await standalone.run(['types', '--site', 'empty'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no events in the last 30d'),
    })
  })
})
