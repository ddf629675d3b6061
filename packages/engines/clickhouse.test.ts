import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { holdEngine } from '../../tests/support/engines/hold-engine-process.ts'
import { type EmbeddedClickHouse, startClickHouse } from './clickhouse.ts'
import { isAlive } from './processes.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-clickhouse-'))

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

/** Posts a statement as the user of the URL, or without a user as a web page could; returns status and text. */
async function post(
  url: string,
  sql: string,
  settings: Record<string, string> = {},
): Promise<{ status: number; text: string }> {
  const { origin, username, password } = new URL(url)
  const response = await fetch(`${origin}/?${new URLSearchParams(settings).toString()}`, {
    method: 'POST',
    body: sql,
    headers: username ? { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password } : {},
  })
  return { status: response.status, text: await response.text() }
}

async function run(url: string, sql: string, settings?: Record<string, string>): Promise<string> {
  const { status, text } = await post(url, sql, settings)
  if (status !== 200) throw new Error(text)
  return text
}

describe('a running embedded ClickHouse', () => {
  const dir = join(root, 'running')
  let clickHouse: EmbeddedClickHouse

  beforeAll(async () => {
    clickHouse = await startClickHouse({ dir })
    if (process.platform === 'linux') expect(readlinkSync(`/proc/${clickHouse.pid}/fd/0`)).toMatch(/ptmx$/)
    await run(clickHouse.url, 'CREATE DATABASE sluice')
    await run(clickHouse.url, 'CREATE TABLE sluice.t (a UInt64) ENGINE = MergeTree ORDER BY a')
    await run(clickHouse.url, 'INSERT INTO sluice.t SELECT number FROM numbers(10)')
  })

  afterAll(async () => {
    await clickHouse.stop()
  })

  test.each([
    'SELECT 1',
    'SELECT sleep(3)',
    'SELECT name FROM system.tables',
    'SELECT * FROM sluice.t',
    'CREATE DATABASE mine',
    'INSERT INTO sluice.t VALUES (1)',
    'DROP TABLE sluice.t',
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV')",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    'SYSTEM STOP LISTEN HTTP',
    'SYSTEM SHUTDOWN',
    'KILL QUERY WHERE 1',
  ])('refuses a request without a password: %s', async (sql) => {
    const withoutUser = new URL(clickHouse.url).origin
    const refused = { status: 500, text: expect.stringContaining('USER_SESSION_LIMIT_EXCEEDED') }
    expect(await post(withoutUser, sql)).toEqual(refused)
    expect(await post(withoutUser, sql, { max_sessions_for_user: '9' })).toEqual(refused)
    expect((await fetch(`${withoutUser}/?query=${encodeURIComponent(sql)}`)).status).toBe(500)
  })

  test('refuses a wrong password', async () => {
    const { origin } = new URL(clickHouse.url)
    expect(await post(origin.replace('//', '//sluice:wrong@'), 'SELECT 1')).toMatchObject({ status: 403 })
  })

  test.each([
    'INSERT INTO sluice.t VALUES (1)',
    'CREATE TABLE sluice.u (a UInt64) ENGINE = MergeTree ORDER BY a',
    'ALTER TABLE sluice.t DELETE WHERE 1',
    'TRUNCATE TABLE sluice.t',
    'OPTIMIZE TABLE sluice.t',
    'SYSTEM STOP MERGES sluice.t',
    'SELECT 1 SETTINGS readonly = 0',
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV')",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1:1', system.one)",
    'SELECT * FROM system.users',
    'SELECT * FROM system.processes',
  ])('refuses the reader: %s', async (sql) => {
    const { status, text } = await post(clickHouse.readerUrl, sql)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(text).toMatch(/ACCESS_DENIED|READONLY/)
  })

  test('permits the reader to read, generate rows, send an external table and set limits', async () => {
    const limits = { max_execution_time: '5', max_memory_usage: '100000000', max_rows_to_read: '1000' }
    expect(await run(clickHouse.readerUrl, 'SELECT count() FROM sluice.t', limits)).toBe('10\n')
    expect(await run(clickHouse.readerUrl, 'SELECT count() FROM numbers(3)')).toBe('3\n')
    expect(
      await withExternalTable(clickHouse.readerUrl, 'SELECT count() FROM sluice.t WHERE a IN (SELECT x FROM b)'),
    ).toBe('2\n')
  })

  test('refuses statements of the owner that reach beyond the databases', async () => {
    for (const sql of [
      'SYSTEM SHUTDOWN',
      'SYSTEM STOP LISTEN HTTP',
      "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    ]) {
      expect((await post(clickHouse.url, sql)).text).toContain('ACCESS_DENIED')
    }
  })

  test('inserts from an external table', async () => {
    await run(clickHouse.url, 'CREATE TABLE sluice.external (a UInt64) ENGINE = MergeTree ORDER BY a')
    await withExternalTable(clickHouse.url, 'INSERT INTO sluice.external SELECT x FROM b')
    expect(await run(clickHouse.url, 'SELECT sum(a) FROM sluice.external')).toBe('3\n')
  })

  test('reads projections', async () => {
    const columns = 'a UInt64, PROJECTION p (SELECT a % 10, count() GROUP BY a % 10)'
    const settings = "deduplicate_merge_projection_mode = 'rebuild'"
    await run(
      clickHouse.url,
      `CREATE TABLE sluice.p (${columns}) ENGINE = ReplacingMergeTree ORDER BY a SETTINGS ${settings}`,
    )
    await run(clickHouse.url, 'INSERT INTO sluice.p SELECT number FROM numbers(100000)')
    const sql = 'SELECT a % 10 AS k, count() FROM sluice.p GROUP BY k ORDER BY k LIMIT 1'
    expect(await run(clickHouse.url, sql, { force_optimize_projection_name: 'p' })).toBe('0\t10000\n')
  })

  test('merges parts in the background until a statement stops merges', async () => {
    await run(clickHouse.url, 'CREATE TABLE sluice.m (a UInt64) ENGINE = MergeTree ORDER BY a')
    await run(clickHouse.url, 'SYSTEM STOP MERGES sluice.m')
    for (let part = 0; part < 10; part += 1) await run(clickHouse.url, `INSERT INTO sluice.m VALUES (${part})`)
    const parts = async (): Promise<number> =>
      Number(await run(clickHouse.url, "SELECT count() FROM system.parts WHERE table = 'm' AND active"))
    expect(await parts()).toBe(10)
    await run(clickHouse.url, 'SYSTEM START MERGES sluice.m')
    await waitUntil(async () => (await parts()) < 10, 'a merge', 60_000)
  })

  test('kills a query by its id, and replaces a running one', async () => {
    const forever =
      'SELECT sleepEachRow(1) FROM numbers(60) SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0'
    const running = async (): Promise<boolean> =>
      (await run(clickHouse.url, "SELECT count() FROM system.processes WHERE query_id = 'mine'")) === '1\n'

    const first = post(clickHouse.url, forever, { query_id: 'mine' })
    await waitUntil(running, 'the first query')
    expect((await post(clickHouse.url, 'SELECT 1', { query_id: 'mine' })).text).toContain(
      'QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING',
    )
    expect(await run(clickHouse.url, 'SELECT 2', { query_id: 'mine', replace_running_query: '1' })).toBe('2\n')
    expect((await first).text).toContain('QUERY_WAS_CANCELLED')

    // A server answers before it removes the query from its list. Until then it refuses another query with the same id.
    await waitUntil(async () => !(await running()), 'the end of the replacing query')
    const second = post(clickHouse.url, forever, { query_id: 'mine' })
    await waitUntil(running, 'the second query')
    await run(clickHouse.url, "KILL QUERY WHERE query_id = 'mine' SYNC")
    expect((await second).text).toContain('QUERY_WAS_CANCELLED')
  })

  test('keeps no log tables', async () =>
    expect(await run(clickHouse.url, "SELECT name FROM system.tables WHERE name LIKE '%\\_log'")).toBe(''))

  test('logs errors of background work, but no values of statements that fail or are cancelled', async () => {
    await run(clickHouse.url, 'CREATE TABLE sluice.l (a UInt64, s String) ENGINE = MergeTree ORDER BY a')
    await run(clickHouse.url, "INSERT INTO sluice.l VALUES (1, 'one')")
    const value = { param_value: '(canary' }
    const failed = await post(clickHouse.readerUrl, 'SELECT match(s, {value:String}) FROM sluice.l', value)
    expect(failed.text).toContain('cannot compile re2: (canary')

    const slow =
      'SELECT sleepEachRow(1), {value:String} FROM numbers(60) SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0'
    const running = async (): Promise<boolean> =>
      (await run(clickHouse.url, "SELECT count() FROM system.processes WHERE query_id = 'slow'")) === '1\n'
    const cancelled = post(clickHouse.readerUrl, slow, { ...value, query_id: 'slow' })
    await waitUntil(running, 'the slow query')
    await run(clickHouse.url, "KILL QUERY WHERE query_id = 'slow' SYNC")
    expect((await cancelled).text).toContain('QUERY_WAS_CANCELLED')

    const mutation = 'ALTER TABLE sluice.l UPDATE s = toString(toUInt64(s)) WHERE 1 SETTINGS mutations_sync = 1'
    expect((await post(clickHouse.url, mutation)).text).toContain('UNFINISHED')
    await run(clickHouse.url, "KILL MUTATION WHERE table = 'l'")

    const log = readFileSync(join(dir, 'clickhouse.log'), 'utf8')
    expect(log).toContain('<Error> MutatePlainMergeTreeTask')
    expect(log.match(/.*canary.*/g)).toBeNull()
  })

  test('keeps its passwords in files that only its user may read', () => {
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    for (const name of ['credentials.json', 'users.xml']) expect(statSync(join(dir, name)).mode & 0o777).toBe(0o600)
  })

  test('refuses a second server in the same folder', async () => {
    await expect(startClickHouse({ dir })).rejects.toThrow(`ClickHouse folder ${dir} is in use by this process`)
  })

  test('restarts at the same address with its data after its process was killed', async () => {
    const killed = clickHouse.pid
    process.kill(killed, 'SIGKILL')
    await waitUntil(() => clickHouse.pid !== killed, 'a new process', 60_000)
    expect(await run(clickHouse.url, 'SELECT count() FROM sluice.t')).toBe('10\n')
  })

  test('ignores the signals that a terminal or a service manager sends to all processes', async () => {
    const { pid } = clickHouse
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal)
    expect(await run(clickHouse.url, 'SELECT count() FROM sluice.t')).toBe('10\n')
    expect(clickHouse.pid).toBe(pid)
  })
})

describe('the life of an embedded ClickHouse', () => {
  test('ends with a killed parent process, and the next start has its data', async () => {
    const dir = join(root, 'killed')
    const holder = await holdEngine('clickhouse', dir)
    await run(holder.url, 'CREATE DATABASE sluice')
    await run(holder.url, 'CREATE TABLE sluice.t (a UInt64) ENGINE = MergeTree ORDER BY a')
    await run(holder.url, 'INSERT INTO sluice.t SELECT number FROM numbers(1000)')
    await holder.killHolder()
    await waitUntil(() => !isAlive(holder.pid), 'end of the server')

    const clickHouse = await startClickHouse({ dir })
    expect(await run(clickHouse.url, 'SELECT count() FROM sluice.t')).toBe('1000\n')
    expect(new URL(clickHouse.url).password).toBe(new URL(holder.url).password)
    await clickHouse.stop()
  })

  test('the next start ends an orphan that could not notice its parent’s end', async () => {
    const dir = join(root, 'orphan')
    const holder = await holdEngine('clickhouse', dir)
    process.kill(holder.pid, 'SIGSTOP')
    await holder.killHolder()
    expect(isAlive(holder.pid)).toBe(true)

    const clickHouse = await startClickHouse({ dir })
    expect(isAlive(holder.pid)).toBe(false)
    await clickHouse.stop()
  })

  test('stop ends the process and releases the folder', async () => {
    const dir = join(root, 'stopped')
    const clickHouse = await startClickHouse({ dir })
    const { pid } = clickHouse
    await Promise.all([clickHouse.stop(), clickHouse.stop()])
    expect(isAlive(pid)).toBe(false)
    await clickHouse.exited
    expect(readdirSync(dir)).not.toContain('server.pid')
    await (await startClickHouse({ dir })).stop()
  })

  test('an unusable folder is an error with the reason', async () => {
    const dir = join(root, 'broken')
    await (await startClickHouse({ dir })).stop()
    rmSync(join(dir, 'data'), { recursive: true })
    writeFileSync(join(dir, 'data'), 'not a folder')
    await expect(startClickHouse({ dir })).rejects.toThrow('ClickHouse did not start')
  })
})

/** With the rows 1 and 2 as a table `b`. */
async function withExternalTable(url: string, sql: string): Promise<string> {
  const { origin, username, password } = new URL(url)
  const form = new FormData()
  form.append('b', new Blob(['1\n2\n']), 'b')
  const parameters = new URLSearchParams({ query: sql, b_structure: 'x UInt64', b_format: 'TSV' })
  const response = await fetch(`${origin}/?${parameters.toString()}`, {
    method: 'POST',
    body: form,
    headers: { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password },
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}
