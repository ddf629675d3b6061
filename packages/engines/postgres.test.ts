import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Client } from 'pg'
import { waitUntil } from '@sluice/runtime/wait-until'
import { holdEngine } from '../../tests/support/engines/hold-engine-process.ts'
import { attachPostgres, type EmbeddedPostgres, startPostgres } from './postgres.ts'
import { isAlive } from './processes.ts'

// The folder is closed to other users: as root, Postgres must reach its own folder nevertheless.
const root = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

async function query(url: string, sql: string): Promise<unknown[][]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<unknown[]>({ text: sql, rowMode: 'array' })).rows
  } finally {
    await client.end()
  }
}

describe('a running embedded Postgres', () => {
  const dir = join(root, 'running')
  let postgres: EmbeddedPostgres

  beforeAll(async () => {
    postgres = await startPostgres({ dir, durable: false })
    await query(postgres.url, 'CREATE TABLE t AS SELECT 1 AS a')
  })

  afterAll(async () => {
    await postgres.stop()
  })

  test('has the database sluice, in UTF-8 and UTC', async () => {
    const sql =
      "SELECT current_database(), current_user, current_setting('server_encoding'), current_setting('timezone')"
    expect(await query(postgres.url, sql)).toEqual([['sluice', 'sluice', 'UTF8', 'UTC']])
  })

  test('refuses a wrong password and a missing one', async () => {
    const wrong = new URL(postgres.url)
    for (const password of ['wrong', '']) {
      wrong.password = password
      await expect(query(wrong.href, 'SELECT 1')).rejects.toThrow(/password/)
    }
  })

  test('logs neither checkpoints nor the text of failed statements', async () => {
    await query(postgres.url, 'CHECKPOINT')
    await expect(query(postgres.url, 'SELECT missing_column')).rejects.toThrow(/missing_column/)
    expect(readFileSync(join(dir, 'postgres.log'), 'utf8')).not.toMatch(/checkpoint (starting|complete)|STATEMENT/)
  })

  test('listens on the loopback address alone', async () => {
    expect(
      await query(
        postgres.url,
        "SELECT current_setting('listen_addresses'), current_setting('unix_socket_directories')",
      ),
    ).toEqual([['127.0.0.1', '']])
    const others = Object.values(networkInterfaces()).flatMap((addresses) =>
      (addresses ?? []).filter(({ family, internal }) => family === 'IPv4' && !internal).map(({ address }) => address),
    )
    for (const address of others) {
      const elsewhere = new URL(postgres.url)
      elsewhere.hostname = address
      await expect(query(elsewhere.href, 'SELECT 1')).rejects.toThrow('ECONNREFUSED')
    }
  })

  test('keeps its password in a file that only its user may read', () => {
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    expect(statSync(join(dir, 'credentials.json')).mode & 0o777).toBe(0o600)
  })

  test('refuses a second server in the same folder', async () => {
    await expect(startPostgres({ dir })).rejects.toThrow(`Postgres folder ${dir} is in use by this process`)
  })

  test('can be attached to by its folder', async () => {
    const attached = attachPostgres(dir)
    expect(attached).toEqual({ url: postgres.url })
    expect(await query(attached?.url ?? '', 'SELECT a FROM t')).toEqual([[1]])
  })

  test.each(['SIGKILL', 'SIGTERM'] as const)('restarts at the same address with its data after %s', async (signal) => {
    const ended = postgres.pid
    process.kill(ended, signal)
    await waitUntil(() => postgres.pid !== ended, 'a new process')
    expect(await query(postgres.url, 'SELECT a FROM t')).toEqual([[1]])
  })

  test('restarts after its watchdog was killed', async () => {
    const orphan = postgres.pid
    process.kill(parentOf(orphan), 'SIGKILL')
    await waitUntil(() => postgres.pid !== orphan, 'a new process')
    expect(isAlive(orphan)).toBe(false)
    expect(await query(postgres.url, 'SELECT a FROM t')).toEqual([[1]])
  })
})

describe('the life of an embedded Postgres', () => {
  test('ends with a killed parent process, and the next start has its data', async () => {
    const dir = join(root, 'killed')
    const holder = await holdEngine('postgres', dir)
    await query(holder.url, 'CREATE TABLE t AS SELECT 2 AS a')
    await holder.killHolder()
    await waitUntil(() => !isAlive(holder.pid), 'end of the server')
    expect(attachPostgres(dir)).toBeUndefined()

    const postgres = await startPostgres({ dir, durable: false })
    expect(await query(postgres.url, 'SELECT a FROM t')).toEqual([[2]])
    expect(new URL(postgres.url).password).toBe(new URL(holder.url).password)
    await postgres.stop()
  })

  test('the next start ends an orphan whose watchdog could not notice its parent’s end', async () => {
    const dir = join(root, 'killed')
    const holder = await holdEngine('postgres', dir)
    const watchdog = parentOf(holder.pid)
    process.kill(watchdog, 'SIGSTOP')
    await holder.killHolder()
    expect(isAlive(holder.pid)).toBe(true)

    const postgres = await startPostgres({ dir, durable: false })
    expect(isAlive(holder.pid)).toBe(false)
    expect(await query(postgres.url, 'SELECT a FROM t')).toEqual([[2]])
    process.kill(watchdog, 'SIGKILL')
    await postgres.stop()
  })

  test('a stale pid file with the pid of another program neither prevents a start nor ends that program', async () => {
    const dir = join(root, 'killed')
    const stranger = process.ppid
    writeFileSync(
      join(dir, 'data', 'postmaster.pid'),
      `${stranger}\n${join(dir, 'data')}\n1\n5432\n\n127.0.0.1\n\nready\n`,
    )
    expect(attachPostgres(dir)).toBeUndefined()
    await (await startPostgres({ dir, durable: false })).stop()
    expect(isAlive(stranger)).toBe(true)
  })

  test('stop ends all processes and releases the folder', async () => {
    const dir = join(root, 'killed')
    const postgres = await startPostgres({ dir, durable: false })
    const { pid } = postgres
    await Promise.all([postgres.stop(), postgres.stop()])
    expect(isAlive(pid)).toBe(false)
    await postgres.exited
    expect(attachPostgres(dir)).toBeUndefined()
  })

  test('an unusable data folder is an error with the reason', async () => {
    const dir = join(root, 'broken')
    mkdirSync(join(dir, 'data'), { recursive: true })
    writeFileSync(join(dir, '.lock'), '')
    await expect(startPostgres({ dir })).rejects.toThrow('Postgres did not start')
  })
})

function parentOf(pid: number): number {
  return Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }))
}
