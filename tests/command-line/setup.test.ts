import { spawn } from 'node:child_process'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithOpenssl, makeCertificate } from '../support/certificates.ts'
import { spawnService } from '../support/service-process.ts'
import { tlsProxy } from '../support/tls-proxy.ts'
import { program, repository, type Standalone, startMsMax, startStandalone } from './standalone.ts'

let standalone: Standalone

beforeAll(async () => {
  standalone = await startStandalone()
}, startMsMax)

afterAll(() => standalone.stop())

describe('every command', () => {
  it('has a help text with an example', async () => {
    const names = ['send', 'tail', 'import', 'stats', 'types', 'keys', 'doctor', 'login', 'logout']
    const texts = await Promise.all(names.map((name) => standalone.run([name, '--help'])))
    for (const [at, { code, stdout }] of texts.entries()) {
      expect([code, stdout]).toEqual([0, expect.stringContaining(`sluice ${names[at] ?? ''}`)])
      expect(stdout).toContain('Examples:')
    }
    expect(await standalone.run(['help', 'send'])).toStrictEqual(texts[0])
    const create = await standalone.run(['keys', 'create', '--help'])
    expect(await standalone.run(['help', 'keys', 'create'])).toStrictEqual(create)
  })

  it('is not explained when its name is unknown', async () => {
    expect(await standalone.run(['help', 'keys', 'crate'])).toStrictEqual({
      code: 2,
      stdout: '',
      stderr: `sluice: unknown command 'crate': did you mean create? See "sluice keys --help".\n`,
    })
    for (const call of ['help stat', 'keys help crate']) expect((await standalone.run(call.split(' '))).code).toBe(2)
  })

  it('is started by the program that the installation links, whatever Node comes first in the path', async () => {
    for (const environment of ['', '/usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin ']) {
      const command = `${environment}node_modules/.bin/sluice --version`
      const child = spawn('/bin/sh', ['-c', command], { cwd: repository, stdio: ['ignore', 'pipe', 'inherit'] })
      expect((await child.stdout.setEncoding('utf8').toArray()).join('')).toMatch(/^\d+\.\d+\.\d+\n$/)
    }
  })

  it('suggests the nearest name of a command or option that does not exist, and ends with 2', async () => {
    expect(await standalone.run(['stat'])).toStrictEqual({
      code: 2,
      stdout: '',
      stderr: `sluice: unknown command 'stat': did you mean stats? See "sluice --help".\n`,
    })
    expect(await standalone.run(['stats', '--sit', 'x'])).toMatchObject({
      code: 2,
      stderr: `sluice: unknown option '--sit': did you mean --site? See "sluice stats --help".\n`,
    })
  })

  it('suggests several names that begin as the word does, and none that merely resembles it', async () => {
    const suggestions = [
      ['log', `unknown command 'log': did you mean login or logout?`],
      ['improt', `unknown command 'improt': did you mean import?`],
      ['export', `unknown command 'export'.`],
      ['keys remove', `unknown command 'remove'.`],
      ['stats --event x', `unknown option '--event': did you mean --event-type?`],
      ['stats --enviroment x', `unknown option '--enviroment': did you mean --environment?`],
      ['stats --since x', `unknown option '--since'.`],
      ['stats --page x', `unknown option '--page'.`],
    ] as const
    const texts = await Promise.all(suggestions.map(async ([call]) => (await standalone.run(call.split(' '))).stderr))
    expect(texts.map((text) => text.replace(/ See .*\n/, ''))).toEqual(
      suggestions.map(([, sentence]) => `sluice: ${sentence}`),
    )
  })

  it('says in a sentence what to do without a key, with a wrong one, and without a site', async () => {
    expect(await standalone.run(['stats', '--site', 'shop'], { env: { SLUICE_API_KEY: '' } })).toStrictEqual({
      code: 4,
      stdout: '',
      stderr: `sluice: There is no API key for ${standalone.service.url}: set SLUICE_API_KEY, or run "sluice login".\n`,
    })
    const misnamed = await standalone.run(['stats', '--site', 'shop'], { env: { SLUICE_API_KEY: '', SLUICE_KEY: 'x' } })
    expect(misnamed.stderr).toContain(
      'set SLUICE_API_KEY (SLUICE_KEY is set, but only the curl examples read it), or run',
    )
    expect(
      await standalone.run(['stats', '--site', 'shop'], { env: { SLUICE_API_KEY: 'svc_prod_wrong' } }),
    ).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('does not accept the API key'),
    })
    expect(await standalone.run(['stats'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('give --site <site>'),
    })
  })

  it.each([
    ['stats', '--site'],
    ['send x', '--site'],
    ['send x', '--api-key'],
    ['login', '--url'],
    ['stats', '--event-type'],
    ['stats', '--country'],
    ['stats', '--group-by'],
    ['tail --no-follow', '--event-type'],
    ['keys create x', '--sites'],
    ['keys create x', '--origin'],
  ])('%s refuses an empty %s, in whose place it would use another value or none', async (call, option) => {
    const { code, stdout, stderr } = await standalone.run([...call.split(' '), option, ''], {
      env: { SLUICE_SITE: 'shop' },
    })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(new RegExp(`option '.*${option} <.*' argument '' is invalid. It is empty`))
  })

  it('says in a sentence what to do when nothing, or something else, is at the address', async () => {
    expect(await standalone.run(['stats', '--site', 'shop', '--url', 'http://127.0.0.1:9'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('bad port'),
    })
    expect(await standalone.run(['stats', '--site', 'shop'], { env: { SLUICE_URL: 'shop' } })).toMatchObject({
      code: 2,
      stderr: 'sluice: SLUICE_URL is not a valid address: give one like https://stats.example.com.\n',
    })
  })

  it('takes the key from standard input', async () => {
    const { code, stdout } = await standalone.run(['keys', 'list', '--api-key', '-'], {
      input: `${standalone.key}\n`,
      env: { SLUICE_API_KEY: '' },
    })
    expect([code, stdout]).toEqual([0, expect.stringContaining('admin')])
  })

  it.each(['keys list --api-key -', 'login'])('%s ends when standard input is no key and has no end', async (args) => {
    const child = spawn('/bin/sh', ['-c', `"${process.execPath}" "${program}" ${args} < /dev/zero`], {
      env: {
        PATH: process.env.PATH,
        SLUICE_URL: standalone.service.url,
        SLUICE_CONFIG: join(standalone.folder, 'no-config.json'),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const closed = new Promise((resolve) => child.once('close', resolve))
    const stderr = child.stderr.setEncoding('utf8').toArray()
    expect([await closed, (await stderr).join('')]).toEqual([
      2,
      'sluice: Standard input holds more than an API key: pipe in the key alone.\n',
    ])
  })
})

describe('keys', () => {
  it('prints a new key once and alone, and replaces and revokes it', async () => {
    const made = await standalone.run([
      'keys',
      'create',
      'ci',
      '--scope',
      'stats:read',
      '--sites',
      'shop',
      '--expires',
      '90d',
      '--json',
    ])
    const first = JSON.parse(made.stdout) as { key: string; key_id: string }
    expect(first).toMatchObject({ name: 'ci', scopes: ['stats:read'], site_ids: ['shop'] })

    const listed = await standalone.run(['keys', 'list'])
    expect(listed.stdout).toMatch(
      new RegExp(`${first.key_id} +ci +svc_prod_….{4} +stats:read +shop +never +active until`),
    )
    expect(listed.stdout).not.toContain(first.key)

    const rotated = await standalone.run(['keys', 'rotate', first.key_id, '--overlap', '1h'])
    const second = rotated.stdout.trim()
    expect([rotated.code, second.length]).toEqual([0, 43])
    expect(rotated.stderr).not.toContain(second)

    expect(await standalone.run(['keys', 'revoke', first.key_id])).toStrictEqual({
      code: 2,
      stdout: '',
      stderr: 'sluice: There is no terminal on which to ask for confirmation: add --yes.\n',
    })
    expect((await standalone.run(['keys', 'revoke', first.key_id, '--yes'])).stderr).toContain('Revoked the key ci')
    const ask = async (apiKey: string): Promise<number | null> =>
      (await standalone.run(['stats', '--site', 'shop'], { env: { SLUICE_API_KEY: apiKey } })).code
    await waitUntil(async () => (await ask(first.key)) === 4, 'the key is refused')
    expect(await ask(second)).toBe(0)
  })

  it('says what to do about an expiry or an id that it can’t use', async () => {
    expect(await standalone.run(['keys', 'create', 'x', '--expires', 'soon'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Give a duration like 90d'),
    })
    expect(await standalone.run(['keys', 'revoke', 'key_x', '--yes'])).toMatchObject({
      code: 1,
      stderr: 'sluice: Key not found: "sluice keys list --all" shows the ids of keys.\n',
    })
    for (const command of ['revoke', 'rotate']) {
      expect(await standalone.run(['keys', command, ''])).toMatchObject({
        code: 2,
        stderr: 'sluice: <key_id> is empty: "sluice keys list" shows the ids of keys.\n',
      })
    }
  })

  it('says that a key may exist when the connection ends before the answer', async () => {
    const server = createServer((request) => request.socket.destroy())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const env = { SLUICE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
    for (const args of [
      ['create', 'lost'],
      ['rotate', 'key_x'],
    ]) {
      expect(await standalone.run(['keys', ...args], { env })).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('The key may exist all the same: see "sluice keys list".'),
      })
    }
    server.close()
  })

  it('makes one attempt to create a key when Sluice fails, and says that the key may exist', async () => {
    let requests = 0
    const server = createServer((_request, response) => {
      requests++
      const failure = { success: false, error: 'Service temporarily unavailable', timestamp: Date.now() }
      response.setHeader('Content-Type', 'application/json').setHeader('Retry-After', '1')
      response.writeHead(503).end(JSON.stringify(failure))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const env = { SLUICE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
    const { code, stderr } = await standalone.run(['keys', 'create', 'once'], { env })
    server.close()
    expect([code, requests]).toEqual([1, 1])
    expect(stderr).toContain('The key may exist all the same: see "sluice keys list".')
  })

  it('says that a key may exist when the command is interrupted', async () => {
    const server = createServer(() => child.kill('SIGINT'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const child = spawn(process.execPath, [program, 'keys', 'create', 'interrupted'], {
      env: {
        PATH: process.env.PATH,
        SLUICE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        SLUICE_API_KEY: standalone.key,
        SLUICE_CONFIG: join(standalone.folder, 'no-config.json'),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const closed = new Promise((resolve) => child.once('close', resolve))
    const stderr = (await child.stderr.setEncoding('utf8').toArray()).join('')
    expect([await closed, stderr]).toEqual([130, 'The key may exist all the same: see "sluice keys list".\n'])
    server.close()
  })

  it('asks before a rotation that ends the old key at once', async () => {
    const { key_id: id } = JSON.parse((await standalone.run(['keys', 'create', 'now', '--json'])).stdout) as {
      key_id: string
    }
    expect(await standalone.run(['keys', 'rotate', id, '--overlap', '0s'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--yes'),
    })
    expect(await standalone.run(['keys', 'rotate', id, '--overlap', '0s', '--yes'])).toMatchObject({ code: 0 })
  })

  it('says that both keys of a rotation expire when the old one would have before the end of the overlap', async () => {
    const made = await standalone.run(['keys', 'create', 'short', '--expires', '1h', '--json'])
    const { key_id: id } = JSON.parse(made.stdout) as { key_id: string }
    expect(await standalone.run(['keys', 'rotate', id])).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/Both keys expire in \d+ min: the new key has the expiry of the old one\./),
    })
  })

  it('needs a key with the scope admin', async () => {
    expect(await standalone.run(['keys', 'list'], { env: { SLUICE_API_KEY: standalone.readKey } })).toMatchObject({
      code: 4,
      stderr: 'sluice: The API key lacks the scope admin: use a key that has it.\n',
    })
  })
})

describe('login', () => {
  it('saves the settings for their owner alone, and the key is sent to no other address', async () => {
    const env = { SLUICE_CONFIG: join(standalone.folder, 'settings/config.json'), SLUICE_API_KEY: '' }
    const { code } = await standalone.run(['login', '--site', 'shop'], { env, input: `${standalone.shopKey}\n` })
    expect(code).toBe(0)
    expect((await stat(env.SLUICE_CONFIG)).mode & 0o777).toBe(0o600)

    const saved = { ...env, SLUICE_URL: '' }
    expect(await standalone.run(['send', 'x'], { env: saved })).toMatchObject({ code: 0 })
    expect(
      await standalone.run(['stats', '--url', standalone.service.url.replace('127.0.0.1', 'localhost')], {
        env: saved,
      }),
    ).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('There is no API key for http://localhost'),
    })
    expect((await standalone.run(['logout'], { env: saved })).stderr).toContain('Removed')
    expect(await standalone.run(['send', 'x', '--url', standalone.service.url], { env: saved })).toMatchObject({
      code: 4,
    })
  })

  it('sends to the gateway that the query service names now, whatever an earlier build has saved', async () => {
    const env = { SLUICE_CONFIG: join(standalone.folder, 'moved.json'), SLUICE_API_KEY: '', SLUICE_URL: '' }
    const settings = { url: standalone.service.url, api_key: standalone.shopKey, collect_url: 'http://127.0.0.1:1' }
    await writeFile(env.SLUICE_CONFIG, JSON.stringify(settings))
    expect(await standalone.run(['send', 'x', '--site', 'shop'], { env })).toMatchObject({ code: 0 })
    expect((await standalone.run(['doctor', '--site', 'shop'], { env })).stdout).toMatch(/✓ event sent/)
  })

  it('says that an address takes no events, or no queries, and which variable names the right one', async () => {
    const server = createServer((_request, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.writeHead(404).end(JSON.stringify({ success: false, error: 'Not found', timestamp: Date.now() }))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const env = { SLUICE_COLLECT_URL: `http://127.0.0.1:${port}` }
    const sent = await standalone.run(['send', 'x', '--site', 'shop'], { env })
    const asked = await standalone.run(['types', '--site', 'shop'], { env: { SLUICE_URL: env.SLUICE_COLLECT_URL } })
    server.close()
    expect([sent.code, sent.stderr]).toEqual([
      1,
      expect.stringMatching(/takes no events: set SLUICE_COLLECT_URL to the address of the gateway/),
    ])
    expect([asked.code, asked.stderr]).toEqual([
      1,
      expect.stringMatching(/answers no queries: set SLUICE_URL to the address of the query service/),
    ])
  })

  it('sends no key without TLS when Sluice is asked with it', async () => {
    const env = { SLUICE_URL: 'https://sluice.example', SLUICE_COLLECT_URL: 'http://127.0.0.1:1' }
    expect(await standalone.run(['send', 'x', '--site', 'shop'], { env })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('SLUICE_COLLECT_URL is http://127.0.0.1:1, which is not encrypted'),
    })
  })

  it('removes no file but its own', async () => {
    const file = join(standalone.folder, 'not-settings')
    await writeFile(file, 'somebody else’s\n')
    expect(await standalone.run(['logout'], { env: { SLUICE_CONFIG: file } })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('does not hold settings of sluice'),
    })
    expect(await readFile(file, 'utf8')).toBe('somebody else’s\n')
  })

  it.each(['svc_prod_…', 'svc_prod_one\nsvc_prod_two'])(
    'says what is wrong with the key %j, and not the key',
    async (key) => {
      for (const command of [
        ['send', 'x', '--site', 'shop'],
        ['stats', '--site', 'shop'],
      ]) {
        const { code, stderr } = await standalone.run(command, { env: { SLUICE_API_KEY: key } })
        expect([code, stderr]).toEqual([
          4,
          'sluice: The API key from SLUICE_API_KEY has characters that no API key has: copy it again, without anything around it.\n',
        ])
      }
      const { code, stdout } = await standalone.run(['doctor'], { env: { SLUICE_API_KEY: key } })
      expect([code, stdout]).toEqual([1, expect.stringMatching(/✗ key .*can't be sent\n.*copy it again/)])
      expect(stdout).not.toContain('svc_prod')
    },
  )

  it('is not needed when the address and the key are given', async () => {
    await writeFile(join(standalone.folder, 'damaged.json'), '{"url": "htt')
    for (const unreadable of ['damaged.json', 'damaged.json/config.json', '.']) {
      const env = { SLUICE_CONFIG: join(standalone.folder, unreadable) }
      expect(await standalone.run(['send', 'x', '--site', 'shop'], { env })).toMatchObject({ code: 0 })
    }
  })

  it('replaces a file that holds no settings, as its message says', async () => {
    const env = { SLUICE_CONFIG: join(standalone.folder, 'cut.json'), SLUICE_API_KEY: '' }
    await writeFile(env.SLUICE_CONFIG, '{"url": "htt')
    const sent = await standalone.run(['send', 'x', '--site', 'shop'], { env })
    expect(sent).toMatchObject({ code: 1, stderr: expect.stringContaining('run "sluice login" again') })
    expect((await standalone.run(['login'], { env, input: standalone.shopKey })).code).toBe(0)
    expect((await standalone.run(['send', 'x', '--site', 'shop'], { env })).code).toBe(0)
  })

  it('saves no key that is not accepted', async () => {
    const env = { SLUICE_CONFIG: join(standalone.folder, 'wrong/config.json') }
    expect(await standalone.run(['login'], { env, input: 'svc_prod_wrong\n' })).toMatchObject({ code: 4 })
    await expect(stat(env.SLUICE_CONFIG)).rejects.toThrow('ENOENT')
  })
})

describeWithOpenssl('doctor, when Sluice is asked with TLS', () => {
  it('sends nothing to a gateway without it', async () => {
    const certificate = makeCertificate(standalone.folder, 'doctor')
    const proxy = await tlsProxy(standalone.service.url, certificate)
    const env = {
      SLUICE_URL: `https://127.0.0.1:${proxy.port}`,
      SLUICE_COLLECT_URL: standalone.service.url,
      NODE_EXTRA_CA_CERTS: certificate.cert,
    }
    const { code, stdout } = await standalone.run(['doctor', '--site', 'shop'], { env })
    await proxy.close()
    expect(code).toBe(1)
    expect(stdout).toContain(`SLUICE_COLLECT_URL is ${standalone.service.url}, which is not encrypted`)
    expect(stdout).not.toContain('event sent')
  })
})

describe('doctor', () => {
  it('finds nothing wrong, and its event with a query', async () => {
    const { code, stdout, stderr } = await standalone.run(['doctor', '--site', 'shop'])
    expect([code, stderr]).toEqual([0, 'Everything works.\n'])
    expect(stdout).toMatch(/✓ event sent .*accepted in/)
    expect(stdout).toMatch(/✓ event found/)
    expect(stdout).not.toMatch(/^[✗!]/m)
  })

  it('says how a key that expires soon is replaced', async () => {
    const key = await standalone.createKey('expiring', '--sites', 'shop', '--expires', '3d')
    const { code, stdout } = await standalone.run(['doctor', '--site', 'shop'], { env: { SLUICE_API_KEY: key } })
    expect([code, stdout]).toEqual([0, expect.stringMatching(/! key .*expires in 3 days/)])
    // A rotation would keep the expiry.
    expect(stdout).toContain('sluice keys create')
    expect(stdout).not.toContain('sluice keys rotate')
  })

  it('sends no event to a site that is not there, which the event would register', async () => {
    const { code, stdout } = await standalone.run(['doctor', '--site', 'misspelt'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/! site .*there is no site misspelt/)
    expect(stdout).toMatch(/- event sent .*sluice send/)
    expect((await standalone.run(['stats', '--site', 'misspelt'])).stderr).toContain('Site not found')
  })

  it('sends no event with a key that can’t read whether the site is there', async () => {
    const writeKey = await standalone.createKey('write-only', '--scope', 'events:write')
    const { stdout } = await standalone.run(['doctor', '--site', 'misspelt'], { env: { SLUICE_API_KEY: writeKey } })
    expect(stdout).toMatch(/- event sent .*the key may not read sites; bind it to its site/)
    expect((await standalone.run(['stats', '--site', 'misspelt'])).stderr).toContain('Site not found')
  })

  const broken: [what: string, env: () => Record<string, string>, finding: RegExp][] = [
    ['a port where nothing listens', () => ({ SLUICE_URL: 'http://127.0.0.1:1' }), /✗ connection .*ECONNREFUSED/],
    ['a name that does not exist', () => ({ SLUICE_URL: 'http://sluice.invalid' }), /✗ name .*can't be resolved/],
    [
      'HTTPS where HTTP is spoken',
      () => ({ SLUICE_URL: standalone.service.url.replace('http', 'https') }),
      /✗ TLS[^]*does not speak TLS/,
    ],
    ['a wrong key', () => ({ SLUICE_API_KEY: 'svc_prod_wrong' }), /✗ key .*not accepted/],
    [
      'a key without events:write',
      () => ({ SLUICE_API_KEY: standalone.readKey }),
      /✗ scopes .*not events:write[^]*- event sent/,
    ],
    [
      'a key of another site',
      () => ({ SLUICE_API_KEY: standalone.shopKey, SLUICE_SITE: 'other' }),
      /✗ site .*bound to shop, not to other/,
    ],
    [
      'a clock that is hours off',
      () => ({ NODE_OPTIONS: '--import=data:text/javascript,const{now}=Date;Date.now=()=>now()-3*3600000' }),
      /✗ clock .*3\.0 h behind the server[^]*✓ event found/,
    ],
    ['no key', () => ({ SLUICE_API_KEY: '' }), /✗ key .*none is set/],
  ]
  it.each(broken)('finds %s, and ends with 1', async (_what, env, finding) => {
    const { code, stdout, stderr } = await standalone.run(['doctor'], { env: { SLUICE_SITE: 'shop', ...env() } })
    expect(stdout).toMatch(finding)
    expect(stdout).toContain('→')
    expect([code, stderr]).toEqual([1, expect.stringContaining('failed: what to do is written above.')])
  })

  it('finds that another program is at the address', async () => {
    const server = createServer((_request, response) => response.end('<h1>It works!</h1>'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const { code, stdout } = await standalone.run(['doctor', '--url', `http://127.0.0.1:${port}`])
    server.close()
    expect([code, stdout]).toEqual([1, expect.stringMatching(/✗ Sluice .*is not Sluice \(it answers 200/)])
  })

  it('names the variable of the gateway when the gateway can’t be reached, or is another program', async () => {
    const server = createServer((_request, response) => response.end('<h1>It works!</h1>'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const other = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    for (const gateway of ['http://127.0.0.1:1', 'http://sluice.invalid', other]) {
      const env = { SLUICE_COLLECT_URL: gateway }
      const sent = await standalone.run(['send', 'x', '--site', 'shop'], { env })
      const found = await standalone.run(['doctor', '--site', 'shop'], { env })
      for (const { code, stdout, stderr } of [sent, found]) {
        expect([code, stdout + stderr]).toEqual([1, expect.stringContaining('SLUICE_COLLECT_URL')])
        expect(stdout + stderr).not.toMatch(/(set|in) SLUICE_URL/)
      }
    }
    server.close()
  })

  it('prints control characters of another program as text, as every command does', async () => {
    const server = createServer((_request, response) => response.setHeader('Content-Type', 'a\u009b31m').end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const found = await standalone.run(['doctor', '--url', url])
    const asked = await standalone.run(['stats', '--site', 'shop', '--url', url])
    server.close()
    for (const text of [found.stdout, asked.stderr]) {
      expect(text).toContain('it answers 200, a\\u009b31m)')
      expect(text).not.toContain('\u009b')
    }
  })

  it('finds a gateway that has never reached its log', async () => {
    const nowhere = '127.0.0.1:9'
    const gateway = await spawnService('gateway', {
      SLUICE_LOG_URL: `kafka://${nowhere}/x`,
      SLUICE_POSTGRES_URL: `postgres://a:b@${nowhere}/x`,
      SLUICE_REDIS_URL: `redis://${nowhere}`,
    })
    try {
      await waitUntil(
        async () =>
          fetch(`${gateway.url}/healthz`).then(
            () => true,
            () => false,
          ),
        'the gateway answers',
      )
      const env = { SLUICE_COLLECT_URL: gateway.url }
      const { code, stdout } = await standalone.run(['doctor', '--site', 'shop', '--json'], { env })
      expect(code).toBe(1)
      const { findings } = JSON.parse(stdout) as { findings: { name: string; state: string; detail: string }[] }
      expect(findings).toContainEqual(
        expect.objectContaining({
          name: 'gateway',
          state: 'failure',
          detail: expect.stringMatching(/^not ready, missing: (.*, )?log \(/),
        }),
      )
      // No event is sent to it.
      expect(findings.at(-1)).toMatchObject({ name: 'gateway' })
    } finally {
      gateway.signal('SIGKILL')
      await gateway.exited
    }
  })

  it('finds a gateway that is ready and takes no event', async () => {
    const server = createServer((request, response) => {
      response.setHeader('Content-Type', 'application/json')
      if (request.method === 'POST') {
        const refusal = { success: false, error: 'Service temporarily unavailable', timestamp: Date.now() }
        response.writeHead(503).end(JSON.stringify(refusal))
        return
      }
      void fetch(`${standalone.service.url}${request.url ?? ''}`).then(async (answer) =>
        response.writeHead(answer.status).end(await answer.text()),
      )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const env = { SLUICE_COLLECT_URL: `http://127.0.0.1:${port}` }
    const { code, stdout } = await standalone.run(['doctor', '--site', 'shop', '--json'], { env })
    server.close()
    expect(code).toBe(1)
    const { findings } = JSON.parse(stdout) as { findings: object[] }
    expect(findings).toContainEqual(expect.objectContaining({ name: 'gateway', state: 'ok' }))
    expect(findings).toContainEqual(expect.objectContaining({ name: 'event sent', state: 'failure' }))
  })

  it('finds that ClickHouse is unavailable', async () => {
    const child = await clickHouseOf(standalone.service.pid)
    process.kill(child, 'SIGSTOP')
    try {
      await waitUntil(async () => !(await fetch(`${standalone.service.url}/readyz`)).ok, 'Sluice misses ClickHouse')
      const { code, stdout } = await standalone.run(['doctor', '--no-canary'])
      expect([code, stdout]).toEqual([1, expect.stringMatching(/✗ Sluice .*missing:.*clickhouse \(/)])
    } finally {
      process.kill(child, 'SIGCONT')
    }
  })

  /** The process of the embedded ClickHouse. */
  async function clickHouseOf(parent: number): Promise<number> {
    const child = spawn('ps', ['-o', 'pid=,args=', '--ppid', String(parent)])
    const lines = (await child.stdout.setEncoding('utf8').toArray()).join('').split('\n')
    return Number.parseInt(lines.find((line) => line.includes('clickhouse-child')) ?? '', 10)
  }
})
