import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { client, waitForCount } from '../support/client.ts'
import { type ServiceProcess, spawnProgram, spawnService, startService } from '../support/service-process.ts'
import { expectWebLogAnswers, sendWebLog } from './web-log.ts'

describe('standalone on embedded engines', () => {
  let folder: string
  let environment: Record<string, string>
  let sluice: ServiceProcess
  let key: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-standalone-'))
    environment = { SLUICE_DATA_DIR: join(folder, 'data'), SLUICE_POSTGRES_URL: `file:${join(folder, 'data', 'keys')}` }
    sluice = await startService('standalone', environment)
    key = adminKeyIn(sluice.output()) ?? ''
  })

  afterAll(async () => {
    await sluice.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const asClient = () => client({ gatewayUrl: sluice.url, queryUrl: sluice.url, key })

  it('prints its address and an admin key at the first start', () => {
    expect(sluice.output()).toContain(sluice.url.replace('127.0.0.1', 'localhost'))
    expect(key).toHaveLength(43)
  })

  it('has counted the events of npm run example at its end, whose next command works', async () => {
    const program = fileURLToPath(new URL('../../docs/example/send-web-log.ts', import.meta.url))
    const env = { PATH: process.env.PATH, SLUICE_URL: sluice.url, SLUICE_KEY: key }
    const { stdout } = await promisify(execFile)(process.execPath, [program], { env })
    expect(stdout).toContain('Sent 2000 of 10000 events.')
    expect(stdout).toContain('Counted 10000 of 10000 events.')
    expect(stdout).toContain(`${sluice.url}/docs`)
    const command = /^ {2}curl [\s\S]*?"$/m.exec(stdout)?.[0] ?? ''
    const answer = await promisify(execFile)('bash', ['-c', command], { env })
    expect(JSON.parse(answer.stdout)).toMatchObject({ success: true, data: { value: 1_862 } })
    await expectWebLogAnswers(asClient())
  })

  it('answers every query on the web log as expected, however often the log was sent', async () => {
    await sendWebLog(asClient())
    await expectWebLogAnswers(asClient())
    await sendWebLog(asClient())
    await expectWebLogAnswers(asClient())
  })

  it('refuses a second process on its data folder and names the folder', async () => {
    const second = await spawnService('standalone', environment)
    expect(await second.exited).toBe(1)
    expect(second.output()).toContain(environment.SLUICE_DATA_DIR)
  })

  it('has its events and its key after kill -9 and a restart, which prints no key', async () => {
    sluice.signal('SIGKILL')
    await sluice.exited
    sluice = await startService('standalone', environment)
    expect(adminKeyIn(sluice.output())).toBeUndefined()
    await expectWebLogAnswers(asClient())
  })

  it('serves the dashboard at /, whose files are all there and whose scripts are all files', async () => {
    const page = await fetch(`${sluice.url}/`)
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    const html = await page.text()
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style/)
    const files = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path = '']) => path)
    expect(files.length).toBeGreaterThan(3)
    const statuses = await Promise.all(files.map(async (path) => (await fetch(sluice.url + path)).status))
    expect(statuses).toEqual(files.map(() => 200))
  })

  it('prints a link that signs in once', async () => {
    const [, code] = /#code=([\w-]+)/.exec(sluice.output()) ?? []
    const open = async () => {
      const body = JSON.stringify({ code })
      const headers = { 'Content-Type': 'application/json' }
      return (await fetch(`${sluice.url}/api/v1/session`, { method: 'POST', headers, body })).status
    }
    expect([await open(), await open()]).toEqual([201, 401])
  })

  it('executes every command of /docs unchanged', async () => {
    const html = await (await fetch(`${sluice.url}/docs`)).text()
    const commands = [...html.matchAll(/<pre><code>(curl [\s\S]*?)<\/code><\/pre>/g)].map(([, command = '']) =>
      command.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
    )
    expect(commands.length).toBeGreaterThan(0)
    const folder = await mkdtemp(join(tmpdir(), 'sluice-docs-'))
    await writeFile(join(folder, 'events.csv'), 'event_type,timestamp_ms\nview,1767225600000\n')
    const made = await fetch(`${sluice.url}/api/v1/settings/keys`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: 'segment', scopes: ['events:write'], site_ids: ['my-site'] }),
    })
    const { data } = (await made.json()) as { data: { key: string } }
    for (const command of commands) {
      // Messages of Segment's clients contain no site: they belong to the site of the key.
      const SLUICE_KEY = command.includes('$SLUICE_URL/v1/') ? data.key : key
      let stdout = ''
      // On a busy machine Sluice may ask for another attempt.
      await waitUntil(async () => {
        ;({ stdout } = await promisify(execFile)('bash', ['-c', command], {
          cwd: folder,
          env: { PATH: process.env.PATH, SLUICE_URL: sluice.url, SLUICE_KEY },
        }))
        return !stdout.includes('"Service temporarily unavailable"')
      }, 'the command is answered')
      const answer = JSON.parse(stdout) as { success?: boolean; error?: string }
      // The commands contain invented ids, except that of the site, which the first command registers. The settings of
      // Segment's clients have no envelope.
      if (answer.success !== true && !stdout.includes('"integrations"'))
        expect([command, answer.error]).toEqual([command, expect.stringMatching(/not found|registered already/)])
    }
    await rm(folder, { recursive: true })
  })

  it('completes an erasure without waiting for others to be deleted together', async () => {
    const siteId = 'erased'
    const call = async (path: string, body?: object) => {
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
      const init = body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers }
      const { data } = (await (await fetch(`${sluice.url}/api/v1${path}`, init)).json()) as { data: object }
      return data as { erasure_id: string; status: string; count: number | null }
    }
    await asClient().collectBatch([
      { site_id: siteId, event_type: 'view', user_id: 'ada' },
      { site_id: siteId, event_type: 'view', user_id: 'grace' },
    ])
    await waitForCount(asClient(), siteId, 2)
    const { erasure_id: erasureId } = await call(`/sites/${siteId}/erasures`, { user_id: 'ada' })
    const read = () => call(`/sites/${siteId}/erasures/${erasureId}`)
    await waitUntil(async () => (await read()).status === 'completed', 'the erasure is completed')
    expect(await read()).toMatchObject({ count: 1 })
  })

  it('refuses the old admin key once npm run admin-key has created a new one', async () => {
    const made = await spawnProgram('standalone/admin-key', environment)
    expect(await made.exited).toBe(0)
    const newKey = adminKeyIn(made.output()) ?? ''
    const statusOf = async (candidate: string) =>
      (await fetch(`${sluice.url}/api/v1/settings/keys`, { headers: { Authorization: `Bearer ${candidate}` } })).status
    expect(await statusOf(newKey)).toBe(200)
    await waitUntil(async () => (await statusOf(key)) === 401, 'the old key is refused')
    key = newKey
  })

  it('exits with 0 when a stop signal arrives twice, as it does from npm', async () => {
    sluice.signal('SIGINT')
    sluice.signal('SIGINT')
    expect(await sluice.exited).toBe(0)
    sluice = await startService('standalone', environment)
  })
})

function adminKeyIn(output: string): string | undefined {
  return /svc_prod_\w+/.exec(output)?.[0]
}
