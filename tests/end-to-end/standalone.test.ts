import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { client } from '../harness/client.ts'
import { type ServiceProcess, spawnService, startService } from '../harness/service-process.ts'
import { expectWebLogAnswers, sendWebLog } from './web-log.ts'

describe('standalone on embedded engines', () => {
  let folder: string
  let environment: Record<string, string>
  let sluice: ServiceProcess
  let key: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-standalone-'))
    environment = { SLUICE_DATA_DIR: join(folder, 'data') }
    sluice = await startService('standalone', environment)
    key = adminKeyIn(sluice.output()) ?? ''
  }, 60_000)

  afterAll(async () => {
    await sluice.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const asClient = () => client({ gatewayUrl: sluice.url, queryUrl: sluice.url, key })

  it('prints its address and an admin key at the first start', () => {
    expect(sluice.output()).toContain(sluice.url.replace('127.0.0.1', 'localhost'))
    expect(key).toHaveLength(43)
  })

  it('answers every question about the web log as expected, however often it was sent', async () => {
    await sendWebLog(asClient())
    await expectWebLogAnswers(asClient())
    await sendWebLog(asClient())
    await expectWebLogAnswers(asClient())
  }, 60_000)

  it('refuses a second process on its data folder and names the folder', async () => {
    const second = await spawnService('standalone', environment)
    expect(await second.exited).toBe(1)
    expect(second.output()).toContain(environment.SLUICE_DATA_DIR)
  })

  it('is found again after kill -9, with its events and its key, and prints no key any more', async () => {
    sluice.signal('SIGKILL')
    await sluice.exited
    sluice = await startService('standalone', environment)
    expect(adminKeyIn(sluice.output())).toBeUndefined()
    await expectWebLogAnswers(asClient())
  }, 60_000)

  it('the page at / shows first commands with its own address, and runs no script', async () => {
    const page = await fetch(`${sluice.url}/`)
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    const html = await page.text()
    expect(html).toContain(sluice.url)
    expect(html).not.toContain('<script')
  })

  it('every command of /docs is understood as it stands there', async () => {
    const html = await (await fetch(`${sluice.url}/docs`)).text()
    const commands = [...html.matchAll(/<pre><code>(curl [\s\S]*?)<\/code><\/pre>/g)].map(([, command = '']) =>
      command.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
    )
    expect(commands.length).toBeGreaterThan(0)
    for (const command of commands) {
      const { stdout } = await promisify(execFile)('bash', ['-c', command], {
        env: { PATH: process.env.PATH, SLUICE_URL: sluice.url, SLUICE_KEY: key },
      })
      const answer = JSON.parse(stdout) as { success: boolean; error?: string }
      // Ids are made up, but for the site, which the first command registers.
      if (!answer.success)
        expect([command, answer.error]).toEqual([command, expect.stringMatching(/not found|registered already/)])
    }
  })

  it('admin-key makes a new admin key while it runs, and the old one dies', async () => {
    const made = await spawnService('migrate', environment, { entry: 'admin-key' })
    expect(await made.exited).toBe(0)
    const newKey = adminKeyIn(made.output()) ?? ''
    const statusOf = async (candidate: string) =>
      (await fetch(`${sluice.url}/api/v1/settings/keys`, { headers: { Authorization: `Bearer ${candidate}` } })).status
    expect(await statusOf(newKey)).toBe(200)
    const deadline = Date.now() + 2_000
    while ((await statusOf(key)) !== 401) expect(Date.now()).toBeLessThan(deadline)
    key = newKey
  })

  it('a stop signal sent twice, as npm does, ends it with 0', async () => {
    sluice.signal('SIGINT')
    sluice.signal('SIGINT')
    expect(await sluice.exited).toBe(0)
    sluice = await startService('standalone', environment)
  }, 30_000)
})

function adminKeyIn(output: string): string | undefined {
  return /svc_prod_\w+/.exec(output)?.[0]
}
