import { once } from 'node:events'
import { readdir, readlink } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { ExportSpec } from '@sluice/contracts/exports'
import type { NewExport } from '@sluice/postgres/export-records'
import { type ExportStore, exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
import { newId } from '@sluice/runtime/ids'
import { waitUntil } from '@sluice/runtime/wait-until'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { testWith } from '../../../tests/support/describe-with.ts'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { type FinishedFile, finishExport } from '../../../tests/support/finished-export.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { downloadExportRoute } from './download-export.ts'

let query: TestQuery
let store: ExportStore

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  store = exportStore(query.postgres)
  await siteStore(query.postgres).register(['shop'])
})

afterAll(async () => {
  await query.stop()
})

afterEach(async () => {
  await query.postgres.db.deleteFrom('exports').execute()
  for await (const { name } of query.blobs.list('')) await query.blobs.remove([name])
})

const hourMs = 3_600_000

function path(exportId: string): string {
  return `/api/v1/exports/${exportId}/download`
}

function download(exportId: string, { method = 'GET', ...headers }: Record<string, string> = {}): Promise<Response> {
  return fetch(`${query.service.url}${path(exportId)}`, {
    method,
    headers: { Authorization: `Bearer ${query.admin}`, ...headers },
  })
}

async function finished(
  content: FinishedFile['content'] | string,
  { spec = {}, ...parts }: Partial<Omit<NewExport, 'spec'>> & { spec?: Partial<ExportSpec> } = {},
  file: Omit<FinishedFile, 'content'> = {},
): Promise<string> {
  const { exportId } = await addExport(store, { site: 'shop', spec, ...parts }, file.at ?? Date.now())
  const bytes = typeof content === 'string' ? Buffer.from(content) : content
  await finishExport({ exports: store, blobs: query.blobs }, exportId, { content: bytes, ...file })
  return exportId
}

/** The lower-case names of these headers with their values. */
function some(headers: Headers, ...names: readonly string[]): Record<string, string | null> {
  return Object.fromEntries(names.map((name) => [name, headers.get(name)]))
}

test('the file is sent with its name, length and etag', async () => {
  const exportId = await finished('event_id\n1\n', { name: 'Käufe "2026"' })
  const response = await download(exportId)
  expect(response.status).toBe(200)
  expect(
    some(response.headers, 'content-type', 'content-length', 'content-disposition', 'accept-ranges', 'etag'),
  ).toStrictEqual({
    'content-type': 'text/csv; charset=utf-8',
    'content-length': '11',
    'content-disposition': `attachment; filename="K_ufe _2026_.csv"; filename*=UTF-8''K%C3%A4ufe%20_2026_.csv`,
    'accept-ranges': 'bytes',
    etag: `"etag-of-${exportId}"`,
  })
  expect(await response.text()).toBe('event_id\n1\n')
})

test.each<[Partial<ExportSpec>, string, string]>([
  [{ format: 'json' }, 'application/json', 'all events.json'],
  [{ format: 'ndjson', compression: 'gzip' }, 'application/gzip', 'all events.ndjson.gz'],
  [{ format: 'csv', compression: 'zstd' }, 'application/zstd', 'all events.csv.zst'],
  [{ format: 'parquet' }, 'application/vnd.apache.parquet', 'all events.parquet'],
])('a file of %j has the media type %s and is called %s', async (spec, type, name) => {
  const response = await download(await finished('a', { spec }))
  expect(response.headers.get('content-type')).toBe(type)
  expect(response.headers.get('content-encoding')).toBeNull()
  expect(response.headers.get('content-disposition')).toContain(`filename="${name}"`)
  expect(await response.text()).toBe('a')
})

test('HEAD has the headers of the file alone', async () => {
  const exportId = await finished('abc')
  const response = await download(exportId, { method: 'HEAD' })
  expect(response.status).toBe(200)
  expect(some(response.headers, 'content-length', 'etag')).toStrictEqual({
    'content-length': '3',
    etag: `"etag-of-${exportId}"`,
  })
  expect(await response.text()).toBe('')
})

test('a download goes on where it broke off, unless the file is another one', async () => {
  const exportId = await finished('0123456789')
  const same = await download(exportId, { Range: 'bytes=4-', 'If-Range': `"etag-of-${exportId}"` })
  expect([same.status, same.headers.get('content-range'), await same.text()]).toStrictEqual([
    206,
    'bytes 4-9/10',
    '456789',
  ])
  const other = await download(exportId, { Range: 'bytes=4-', 'If-Range': '"another"' })
  expect([other.status, await other.text()]).toStrictEqual([200, '0123456789'])
})

test('a file that the client has is not sent again, and another one than it asks for is refused', async () => {
  const exportId = await finished('0123456789')
  const etag = `"etag-of-${exportId}"`
  const known = await download(exportId, { 'If-None-Match': etag })
  expect([known.status, known.headers.get('etag'), await known.text()]).toStrictEqual([304, etag, ''])
  expect(known.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/)
  const same = await download(exportId, { 'If-Match': etag })
  expect([same.status, await same.text()]).toStrictEqual([200, '0123456789'])
  const other = await download(exportId, { 'If-Match': '"another"' })
  expect([other.status, await other.json()]).toMatchObject([
    412,
    { success: false, error: 'The file is not the one that If-Match names' },
  ])
})

/**
 * The positions that RFC 9110 (14.1.2) gives a range of a file of `size` bytes; undefined: 416, null: no valid range.
 */
function expectedRange(first: number | undefined, last: number | undefined, size: number) {
  if (first === undefined && last === undefined) return null
  if (first === undefined) return last === 0 || size === 0 ? undefined : [Math.max(0, size - Number(last)), size]
  if (last !== undefined && last < first) return null
  return first >= size ? undefined : [first, Math.min(last ?? size - 1, size - 1) + 1]
}

test('every range is of the bytes that it names', async () => {
  const position = fc.option(fc.oneof(fc.nat(60), fc.nat(1_000)), { nil: undefined })
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 50 }),
      fc.array(fc.tuple(position, position), { minLength: 5, maxLength: 5 }),
      async (content, ranges) => {
        const exportId = await finished(content)
        for (const [first, last] of ranges) {
          const response = await download(exportId, { Range: `bytes=${first ?? ''}-${last ?? ''}` })
          const expected = expectedRange(first, last, content.length)
          if (expected === undefined) {
            expect(response.status).toBe(416)
            expect(response.headers.get('content-range')).toBe(`bytes */${content.length}`)
            expect(await response.json()).toMatchObject({ success: false })
            continue
          }
          const [start, end] = expected ?? [0, content.length]
          expect(response.status).toBe(expected ? 206 : 200)
          expect(new Uint8Array(await response.arrayBuffer())).toStrictEqual(content.slice(start, end))
          expect(response.headers.get('content-length')).toBe(String(Number(end) - Number(start)))
          if (expected) {
            expect(response.headers.get('content-range')).toBe(`bytes ${start}-${Number(end) - 1}/${content.length}`)
          }
        }
      },
    ),
    { numRuns: 40 },
  )
})

describe('an export without a file', () => {
  async function refusal(exportId: string) {
    const { status, headers, body } = await query.request(path(exportId))
    return [status, headers.get('retry-after'), body.error]
  }

  test('that waits or is under way is 409 with Retry-After', async () => {
    const { exportId } = await addExport(store, { site: 'shop' }, Date.now())
    expect(await refusal(exportId)).toStrictEqual([409, '5', 'The export is not ready'])
    await store.leases.take(Date.now(), 1)
    expect(await refusal(exportId)).toStrictEqual([409, '5', 'The export is not ready'])
  })

  test('that has failed is 409 with the reason, and no Retry-After', async () => {
    const { exportId } = await addExport(store, { site: 'shop' }, Date.now())
    const [lease] = await store.leases.take(Date.now(), 1)
    if (!lease) throw new Error('nothing was taken')
    await store.leases.fail(lease, 'The cohort was deleted', Date.now())
    expect(await refusal(exportId)).toStrictEqual([409, null, 'The export failed: The cohort was deleted'])
  })

  test('whose time is over is 410, whether its file is removed yet or not', async () => {
    const gone = [410, null, 'The file of an export can be downloaded for 7 days']
    const at = Date.now()
    const exportId = await finished('a', {}, { at: at - 2, expiresAt: at - 1 })
    expect(await refusal(exportId)).toStrictEqual(gone)
    expect((await download(exportId, { method: 'HEAD' })).status).toBe(410)
    await query.blobs.remove(await store.expire(at, 10))
    expect(await refusal(exportId)).toStrictEqual(gone)
  })

  test('whose file an erasure removed is 410, and says so', async () => {
    const exportId = await finished('a')
    const at = Date.now()
    await query.blobs.remove((await store.withdraw('shop', at)).objects)
    const error = 'An erasure removed the file. Export it again.'
    expect(await refusal(exportId)).toStrictEqual([410, null, error])
    const { body } = await query.request(`/api/v1/exports/${exportId}`)
    expect(body.data).toMatchObject({ status: 'expired', expires_at: at, error })
  })

  test('whose file was removed since its record was read is 410', async () => {
    const exportId = await finished('a')
    await query.blobs.remove([`exports/${exportId}`])
    expect((await refusal(exportId))[0]).toBe(410)
  })
})

describe('a schedule', () => {
  async function makeRun(scheduleId: string, at: number): Promise<string> {
    const [lease] = await store.schedules.take(at, 1)
    if (lease?.id !== scheduleId) throw new Error('the schedule is not due')
    const { spec } = await addedSpec(scheduleId)
    const run = { exportId: newId('exp'), spec, receipt: { firstFrom: 0, completeUntil: at }, nextRun: at + hourMs }
    await store.createRun(lease, run, at)
    await store.schedules.release(lease, at + hourMs, { isProgress: true })
    return run.exportId
  }

  async function addedSpec(exportId: string) {
    const record = await store.find(exportId, null)
    if (!record) throw new Error(`${exportId} is not there`)
    return record
  }

  test('gives the file of its latest completed run, with the time of the run in its name', async () => {
    const first = Date.UTC(2026, 10, 22, 9)
    const scheduled = { frequency: 'hourly', nextRun: first, paused: false } as const
    const { exportId } = await addExport(store, { site: 'shop', name: 'Hourly', scheduled }, first)
    expect((await query.request(path(exportId))).status).toBe(409)
    const file = (run: string, text: string) =>
      finishExport({ exports: store, blobs: query.blobs }, run, {
        content: Buffer.from(text),
        at: first + 2 * hourMs,
        expiresAt: Date.now() + hourMs,
      })
    const runs = [await makeRun(exportId, first), await makeRun(exportId, first + hourMs)]
    expect((await query.request(path(exportId))).status).toBe(409)
    await file(runs[0] ?? '', 'first')
    expect(await (await download(exportId)).text()).toBe('first')
    await file(runs[1] ?? '', 'second')
    const latest = await download(exportId)
    expect(await latest.text()).toBe('second')
    expect(latest.headers.get('content-disposition')).toContain('filename="Hourly 2026-11-22T10.00Z.csv"')
    expect(latest.headers.get('etag')).toBe(`"etag-of-${runs[1]}"`)
    await makeRun(exportId, first + 2 * hourMs)
    expect(await (await download(exportId)).text()).toBe('second')
    expect(await (await download(runs[0] ?? '')).text()).toBe('first')
  })

  test('whose only run loses its file while the request is answered is 410', async () => {
    const at = Date.now()
    const scheduled = { frequency: 'hourly', nextRun: at, paused: false } as const
    const { exportId } = await addExport(store, { site: 'shop', scheduled }, at)
    const run = await makeRun(exportId, at)
    await finishExport({ exports: store, blobs: query.blobs }, run, { content: Buffer.from('a'), at })
    const { handle } = downloadExportRoute({
      exports: {
        find: (...found) => store.find(...found),
        latestCompletedRun: async (scheduleId) => {
          await store.expire(Date.now() + 8 * 24 * hourMs, 1)
          return store.latestCompletedRun(scheduleId)
        },
      },
      blobs: query.blobs,
    })
    await expect(handle(apiRequest({ params: { export_id: exportId } }))).rejects.toMatchObject({ code: 'gone' })
  })
})

const mebibyte = 1024 * 1024

async function* mebibytes(count: number): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < count; n++) yield await Promise.resolve(Buffer.alloc(mebibyte, n))
}

const testOnLinux = testWith('Linux', process.platform === 'linux')

testOnLinux('the file is closed when the client leaves', async () => {
  const exportId = await finished(mebibytes(64))
  const outgoing = get(`${query.service.url}${path(exportId)}`, {
    headers: { Authorization: `Bearer ${query.admin}` },
    agent: false,
  })
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  await once(incoming, 'readable')
  expect(await openBlobs()).toBe(1)
  outgoing.destroy()
  await waitUntil(async () => (await openBlobs()) === 0, 'the file is closed')
})

/** How many files of the blob store this process has open. */
async function openBlobs(): Promise<number> {
  const links = (await readdir('/proc/self/fd')).map((fd) => readlink(join('/proc/self/fd', fd)).catch(() => ''))
  return (await Promise.all(links)).filter((target) => target.startsWith(query.blobsFolder)).length
}
