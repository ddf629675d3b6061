import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { startPostgres } from '@sluice/engines/postgres'
import { waitUntil } from '@sluice/runtime/wait-until'
import { spawnProgram, spawnService, startService } from '../../tests/support/service-process.ts'
import { mountTmpfs, testWithTmpfs, unmount } from '../../tests/support/tmpfs.ts'

test('a first start on a port in use reports the port and prints the new admin key, which works after the next start, and that prints a link; a start without the data of ClickHouse says what to do', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-first-start-'))
  const environment = { SLUICE_DATA_DIR: join(folder, 'data') }
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const { port } = other.address() as AddressInfo
  try {
    const first = await spawnService('standalone', environment, { port })
    expect(await first.exited).toBe(1)
    expect(first.output()).toContain(`Port ${port} on 127.0.0.1 is in use. Stop what uses it, or set SLUICE_PORT.`)
    const key = /svc_prod_\w{34}/.exec(first.output())?.[0] ?? ''
    expect(key).not.toBe('')

    const second = await startService('standalone', environment)
    expect(second.output()).not.toContain('svc_prod_')
    const response = await fetch(`${second.url}/api/v1/settings/keys`, { headers: { Authorization: `Bearer ${key}` } })
    expect(response.status).toBe(200)

    const link = /^Open the dashboard, signed in: (\S+)$/m.exec(second.output())?.[1] ?? ''
    const { origin, pathname, hash } = new URL(link)
    expect([origin, pathname]).toEqual([second.url.replace('127.0.0.1', 'localhost'), '/'])
    const openSession = () =>
      fetch(`${second.url}/api/v1/session`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ code: hash.replace(/^#code=/, '') }),
      })
    const opened = await openSession()
    expect(opened.status).toBe(201)
    expect(await opened.json()).toMatchObject({ data: { scopes: ['admin'], site_ids: null } })
    expect((await openSession()).status).toBe(401)
    expect(await second.stop()).toBe(0)

    await rm(join(folder, 'data', 'clickhouse'), { recursive: true })
    const third = await spawnService('standalone', environment)
    expect(await third.exited).toBe(1)
    expect(third.output()).toContain('or remove the whole data folder to begin without data.')
    expect(third.output()).not.toContain('--accept-loss')
  } finally {
    other.close()
    await rm(folder, { recursive: true, force: true })
  }
})

/** Starts on `host`, creates a webhook to loopback at the address that the start prints, and stops. */
async function startOn(host: string, dataDir: string, key?: string) {
  const sluice = await spawnService('standalone', { SLUICE_DATA_DIR: dataDir, SLUICE_HOST: host })
  const printed = () => /^Sluice is ready: (\S+)$/m.exec(sluice.output())?.[1]
  try {
    await waitUntil(() => printed() !== undefined, `a start on ${host} is ready`)
    const usedKey = key ?? /svc_prod_\w{34}/.exec(sluice.output())?.[0] ?? ''
    const origin = printed() ?? ''
    const { status } = await fetch(`${origin}/api/v1/webhooks`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${usedKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ site_id: 'shop', url: 'http://127.0.0.1:9/', events: ['alert'] }),
    })
    return { origin, status, key: usedKey, output: () => sluice.output() }
  } finally {
    await sluice.stop()
  }
}

test('only a start on loopback prints a link that signs in and allows webhooks to loopback, and each prints an address that answers', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-hosts-'))
  const dataDir = join(folder, 'data')
  try {
    const open = await startOn('0.0.0.0', dataDir)
    expect([new URL(open.origin).hostname, open.status]).toEqual(['localhost', 400])
    expect(open.output()).not.toContain('#code=')
    const local = await startOn('127.0.0.2', dataDir, open.key)
    expect([new URL(local.origin).hostname, local.status]).toEqual(['127.0.0.2', 201])
    expect(local.output()).toContain(`${local.origin}/#code=`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

test('a start with variables that lack their partners, and with a wrong level, lists all of that before it makes the data folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-mistakes-'))
  try {
    const sluice = await spawnService('standalone', {
      SLUICE_DATA_DIR: join(folder, 'data'),
      SLUICE_SMTP_URL: 'smtp://mail.example',
      SLUICE_S3_ACCESS_KEY_ID: 'a',
      SLUICE_CANARY_API_KEY: 'b',
      SLUICE_LOG_LEVEL: 'loud',
    })
    expect(await sluice.exited).toBe(1)
    const output = sluice.output()
    expect(output).toContain('The configuration has 4 mistakes:')
    expect(output).toContain('SLUICE_LOG_LEVEL must be one of')
    expect(output).toContain('- SLUICE_SMTP_URL and SLUICE_SMTP_FROM must be set both, or neither')
    expect(output).toContain('- SLUICE_S3_ACCESS_KEY_ID and SLUICE_S3_SECRET_ACCESS_KEY must be set both, or neither')
    expect(output).toContain('- SLUICE_CANARY_COLLECT_URL and SLUICE_CANARY_API_KEY must be set both, or neither')
    expect(await readdir(folder)).toStrictEqual([])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

test('a start with an engine that can not be reached names it and its variable', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-unreachable-'))
  try {
    const sluice = await spawnService('standalone', {
      SLUICE_DATA_DIR: join(folder, 'data'),
      SLUICE_POSTGRES_URL: 'postgres://user:secret@127.0.0.1:1/sluice',
    })
    expect(await sluice.exited).toBe(1)
    expect(sluice.output()).toContain(
      'sluice: Postgres: connect ECONNREFUSED 127.0.0.1:1. Start this engine, or correct SLUICE_POSTGRES_URL.\n',
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

testWithTmpfs('a start with too little room for the log of events says so, and is not ready', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-little-room-'))
  const disk = join(folder, 'disk')
  await mkdir(disk)
  mountTmpfs(disk, 'size=64m')
  const reason = 'the disk of the log has less than 128 MiB free'
  const environment = { SLUICE_DATA_DIR: join(folder, 'data'), SLUICE_LOG_URL: `file:${join(disk, 'log')}` }
  const sluice = await spawnService('standalone', environment)
  try {
    await waitUntil(() => sluice.output().includes(`\nNo event is accepted: ${reason}.\n`), 'the reason is said')
    const response = await fetch(`${sluice.url}/readyz`)
    expect([response.status, await response.json()]).toStrictEqual([
      503,
      expect.objectContaining({ data: expect.objectContaining({ missing: expect.objectContaining({ log: reason }) }) }),
    ])
  } finally {
    await sluice.stop()
    unmount(disk)
    await rm(folder, { recursive: true, force: true })
  }
})

test('npm run admin-key refuses a folder without a Postgres and creates nothing, and names the Postgres of its key', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-admin-key-'))
  const run = async (environment: Record<string, string>) => {
    const program = await spawnProgram('standalone/admin-key', environment)
    return { code: await program.exited, output: program.output() }
  }
  try {
    expect(await run({ SLUICE_DATA_DIR: join(folder, 'typo') })).toStrictEqual({
      code: 1,
      output: expect.stringContaining(`There is no Postgres in ${join(folder, 'typo', 'postgres')}. Set`) as unknown,
    })
    expect(await readdir(folder)).toStrictEqual([])

    const dir = join(folder, 'postgres')
    await (await startPostgres({ dir, durable: false })).stop()
    expect(await run({ SLUICE_POSTGRES_URL: `file:${dir}` })).toStrictEqual({
      code: 0,
      output: expect.stringContaining(`This admin key of the Postgres in ${dir} is not shown again.`) as unknown,
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
