import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { ExportResource, ExportRun } from '@sluice/contracts/exports'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import { testClickHouse } from '../support/engines/test-engines.ts'
import { type ServiceProcess, startService } from '../support/service-process.ts'

const run = promisify(execFile)

let folder: string
let sluice: ServiceProcess
let key: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-exports-'))
  sluice = await startService('standalone', { SLUICE_DATA_DIR: join(folder, 'data') })
  key = /svc_prod_\w{34}/.exec(sluice.output())?.[0] ?? ''
})

afterAll(async () => {
  await sluice.stop()
  await rm(folder, { recursive: true, force: true })
})

async function call<T>(path: string, body?: unknown, method = body === undefined ? 'GET' : 'POST'): Promise<T> {
  const response = await fetch(`${sluice.url}${path}`, {
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const answer = (await response.json()) as { success: boolean; data: T }
  expect(answer).toMatchObject({ success: true })
  return answer.data
}

/** Makes an export, waits for its end, and returns its record. */
async function exported(body: object): Promise<ExportResource> {
  const { export_id: exportId } = await call<ExportResource>('/api/v1/exports', body)
  let record = await call<ExportResource>(`/api/v1/exports/${exportId}`)
  const hasEnded = async () => {
    record = await call<ExportResource>(`/api/v1/exports/${exportId}`)
    return !['queued', 'processing'].includes(record.status)
  }
  await waitUntil(hasEnded, `${exportId} has ended`)
  expect(record).toMatchObject({ status: 'completed', progress: 100, error: null })
  return record
}

/** The rows of a small file of Parquet, as ClickHouse reads them without being told their types. */
async function readParquet(file: Buffer): Promise<object[]> {
  const url = new URL(testClickHouse().url)
  url.pathname = '/default'
  const clickHouse = openClickHouse(url.href)
  try {
    const { rows } = await clickHouse.query<object>(
      `SELECT * FROM format('Parquet', base64Decode('${file.toString('base64')}'))`,
    )
    return rows
  } finally {
    await clickHouse.close()
  }
}

const events = Array.from({ length: 3_000 }, (_, n) => ({
  event_id: `e${n}`,
  event_type: n % 2 === 0 ? 'view' : 'buy',
  timestamp: Date.UTC(2026, 0, 1) + (n % 1_000) * 1_000,
  user_id: `u${n % 7}`,
  session_id: `s${n % 5}`,
  url: `https://example.com/${n}`,
  properties: { n, plan: n % 3 === 0 ? 'pro' : '=1+1' },
}))

test('what was accepted is in the file of an export that is made at once, also after a broken download', async () => {
  for (let at = 0; at < events.length; at += 1_000) {
    const batch = events.slice(at, at + 1_000).map((event) => ({ ...event, site_id: 'shop' }))
    await call('/collect/batch', { events: batch })
  }
  const record = await exported({ site_id: 'shop', type: 'events', format: 'ndjson', name: 'All of it' })
  expect(record.rows).toBe(events.length)

  const address = `${sluice.url}/api/v1/exports/${record.export_id}/download`
  const curl = (...options: string[]) =>
    run('curl', ['-sS', '--fail', '-H', `Authorization: Bearer ${key}`, ...options, address], { cwd: folder })
  await curl('-OJ')
  const file = await readFile(join(folder, 'All of it.ndjson'))
  expect(file.length).toBe(record.bytes)
  type Row = (typeof events)[number] & { timestamp_ms: number }
  const rows = file
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Row)
  const read = rows.map(({ event_id, event_type, timestamp_ms: timestamp, user_id, session_id, url, properties }) => ({
    event_id,
    event_type,
    timestamp,
    user_id,
    session_id,
    url,
    properties,
  }))
  const byId = (left: { event_id: string }, right: { event_id: string }) => (left.event_id < right.event_id ? -1 : 1)
  expect(read.sort(byId)).toStrictEqual([...events].sort(byId))

  await writeFile(join(folder, 'broken'), file.subarray(0, 100_000))
  await curl('-C', '-', '-o', 'broken')
  expect((await readFile(join(folder, 'broken'))).equals(file)).toBe(true)
})

test('a filter, a range and a compression choose what the file holds', async () => {
  const record = await exported({
    site_id: 'shop',
    type: 'events',
    format: 'csv',
    compression: 'gzip',
    start_date: Date.UTC(2026, 0, 1) + 500_000,
    filter: [{ property: 'properties.plan', operator: 'equals', value: 'pro' }],
  })
  const response = await fetch(`${sluice.url}/api/v1/exports/${record.export_id}/download?api_key=${key}`)
  const [header, ...lines] = gunzipSync(await response.arrayBuffer())
    .toString()
    .trimEnd()
    .split('\n')
  expect(header?.startsWith('event_id,site_id,event_type,timestamp_ms,session_id,user_id,url,country,')).toBe(true)
  const expected = events.filter(({ properties }, n) => n % 1_000 >= 500 && properties.plan === 'pro')
  expect(lines.map((line) => line.split(',')[0]?.replaceAll('"', '')).sort()).toStrictEqual(
    expected.map(({ event_id }) => event_id).sort(),
  )
})

test.each<[string, object, string]>([
  ['users', {}, 'user_id,email,name,company,plan,first_seen,last_seen,event_count'],
  ['sessions', {}, 'session_id,user_id,started_at,ended_at,event_count,country,device_type'],
  ['stats', { metric: 'visitors', group_by: 'day', end_date: Date.UTC(2026, 0, 2) }, 'timestamp,value'],
])(
  'a file of %s has its columns in every format, and the same rows in JSON and in Parquet',
  async (type, parts, columns) => {
    const body = { site_id: 'shop', type, ...parts }
    const file = async (format: string) => {
      const { export_id: exportId } = await exported({ ...body, format })
      const response = await fetch(`${sluice.url}/api/v1/exports/${exportId}/download?api_key=${key}`)
      return Buffer.from(await response.arrayBuffer())
    }
    const [header, ...lines] = (await file('csv')).toString().trimEnd().split('\n')
    expect(header).toBe(columns)
    const list = JSON.parse((await file('json')).toString()) as object[]
    expect(list).toHaveLength(lines.length)
    for (const row of list) expect(Object.keys(row).join(',')).toBe(columns)
    const rows = await readParquet(await file('parquet'))
    for (const row of rows) expect(Object.keys(row).join(',')).toBe(columns)
    expect(rows).toStrictEqual(list)
  },
)

test('the runs of a schedule hold every event once', async () => {
  /** Resolves when the events can be read: a run ends at `complete_until`, and later events are in the next one. */
  async function send(ids: readonly string[]): Promise<void> {
    await call('/collect/batch', { events: ids.map((event_id) => ({ site_id: 'blog', event_type: 'view', event_id })) })
    const sentAt = Date.now()
    const areComplete = async () =>
      (await call<{ complete_until: number }>('/api/v1/live?site_id=blog')).complete_until > sentAt
    await waitUntil(areComplete, 'the events are complete')
  }
  const scheduled = { frequency: 'monthly', next_run: 0 }
  const body = { site_id: 'blog', type: 'events', format: 'json', start_date: 0, scheduled }
  await send(['a', 'b'])
  const { export_id: exportId } = await call<ExportResource>('/api/v1/exports', body)
  const completedRuns = async () => {
    const { runs } = await call<{ runs: ExportRun[] }>(`/api/v1/exports/${exportId}/runs`)
    return runs.filter(({ status }) => status === 'completed')
  }
  const latestIds = async () => {
    const response = await fetch(`${sluice.url}/api/v1/exports/${exportId}/download?api_key=${key}`)
    return ((await response.json()) as { event_id: string }[]).map(({ event_id }) => event_id).sort()
  }
  await waitUntil(async () => (await completedRuns()).length === 1, 'the first run is completed')
  expect(await latestIds()).toStrictEqual(['a', 'b'])

  await send(['c'])
  await call<ExportResource>(`/api/v1/exports/${exportId}`, { scheduled: { next_run: 1 } }, 'PUT')
  await waitUntil(async () => (await completedRuns()).length === 2, 'the second run is completed')
  expect(await latestIds()).toStrictEqual(['c'])
  const [second, first] = await completedRuns()
  expect(second?.start_date).toBe(first?.end_date)
})
