import { rename } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { AcceptedImport, ImportError, ImportResource } from '@sluice/contracts/imports'
import { type ImportStore, importStore } from '@sluice/postgres/imports'
import { siteStore } from '@sluice/postgres/sites'
import { allOf, streamOf } from '../../../tests/support/chunks.ts'
import { addImport, segmentRecords } from '../../../tests/support/import-jobs.ts'
import { countLeftovers, readImport, upload } from '../../../tests/support/import-uploads.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { readImportErrors } from './read-import-errors.ts'

let query: TestQuery
let store: ImportStore
/** Sees the imports of events of the site `shop`. */
let own: string

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  store = importStore(query.postgres)
  await siteStore(query.postgres).register(['shop', 'blog', 'empty'])
  own = await query.createKey({ scopes: ['events:write'], siteIds: ['shop'] })
})

afterAll(async () => {
  await query.stop()
})

afterEach(async () => {
  await query.postgres.db.deleteFrom('imports').execute()
  for await (const { name } of query.blobs.list('')) await query.blobs.remove([name])
})

const csv = 'event_type,timestamp_ms\nview,1700000000000\n'
const path = (jobId: string, more = '') => `/api/v1/imports/${jobId}${more}`

async function uploaded(fields: Record<string, string> = {}, file = csv): Promise<string> {
  return ((await upload(query, { file, fields })).body.data as AcceptedImport).job_id
}

describe('GET /api/v1/imports', () => {
  test('lists a site’s imports, newest first, in pages; those of users for administrators', async () => {
    const events = [await uploaded(), await uploaded()]
    const users = await uploaded({ type: 'users' }, 'user_id\nu1\n')
    await uploaded({ site_id: 'blog' })
    const list = async (more: string, key?: string) => {
      const { body } = await query.request(`/api/v1/imports?site_id=shop${more}`, key === undefined ? {} : { key })
      const { imports, ...page } = body.data as { imports: ImportResource[] }
      return { ids: imports.map(({ job_id }) => job_id), ...page }
    }
    const [first, second] = events
    expect(await list('')).toStrictEqual({ ids: [users, second, first], total: 3, limit: 50, offset: 0 })
    expect(await list('&limit=1&offset=1', own)).toStrictEqual({ ids: [first], total: 2, limit: 1, offset: 1 })
  })

  test.each([
    ['', 400, 'Missing required field: site_id'],
    ['?site_id=shop&limit=0', 400, 'Invalid field: limit must be at least 1'],
    ['?site_id=shop&status=queued', 400, 'Invalid field: status is not a known parameter'],
    ['?site_id=blog', 404, 'Site not found'],
    ['?site_id=nobody', 404, 'Site not found'],
  ])('refuses %s with %i', async (parameters, status, error) => {
    const answer = await query.request(`/api/v1/imports${parameters}`, { key: own })
    expect([answer.status, answer.body.error]).toStrictEqual([status, error])
  })
})

describe('GET /api/v1/imports/{import_id}', () => {
  test('shows an import from its upload to its end', async () => {
    const before = Date.now()
    const jobId = await uploaded()
    const queued = await readImport(query, jobId)
    expect(queued).toStrictEqual({
      job_id: jobId,
      site_id: 'shop',
      type: 'events',
      status: 'queued',
      total_records: 1,
      processed_records: 0,
      failed_records: 0,
      created_at: expect.any(Number),
      finished_at: null,
      error: null,
    })
    expect(queued.created_at).toBeGreaterThanOrEqual(before)
    const [lease] = await store.leases.take(Date.now(), 1)
    if (!lease) throw new Error('nothing was taken')
    expect((await readImport(query, jobId)).status).toBe('processing')
    await store.recordSegment(lease, 0, { processed: 1, failed: 1, errorsObject: null, publishedEndOffsets: null })
    await store.leases.fail(lease, 'Nothing could be read', before + 5)
    const failed = { status: 'failed', error: 'Nothing could be read', processed_records: 1, failed_records: 1 }
    expect(await readImport(query, jobId)).toStrictEqual({ ...queued, ...failed, finished_at: before + 5 })
  })

  test('responds with 404 for a missing one, one of another site, and one of users without the scope admin', async () => {
    const hidden = [await uploaded({ site_id: 'blog' }), await uploaded({ type: 'users' }, 'user_id\nu1\n'), 'imp_x']
    for (const jobId of hidden) {
      for (const [more, method] of [
        ['', 'GET'],
        ['/errors', 'GET'],
        ['/cancel', 'POST'],
      ] as const) {
        const { status, body } = await query.request(path(jobId, more), { key: own, method })
        expect([status, body.error]).toStrictEqual([404, 'Import not found'])
      }
    }
    const rows = await query.postgres.db.selectFrom('imports').select('status').execute()
    expect(rows.map(({ status }) => status)).toStrictEqual(['queued', 'queued'])
  })
})

describe('POST /api/v1/imports/{import_id}/cancel', () => {
  test('cancels an import, whose file is removed, and is then repeated in vain', async () => {
    const jobId = await uploaded()
    const unknown = await query.request(path(jobId, '/cancel'), { method: 'POST', body: { at: 1 } })
    expect([unknown.status, unknown.body.error]).toStrictEqual([400, 'Invalid field: at is not known'])
    const cancelled = (await query.request(path(jobId, '/cancel'), { method: 'POST', key: own })).body
      .data as ImportResource
    expect(cancelled).toMatchObject({ job_id: jobId, status: 'cancelled', finished_at: expect.any(Number) })
    expect(await countLeftovers(query)).toMatchObject({ blobs: 0, files: 0, imports: 1 })
    const again = await query.request(path(jobId, '/cancel'), { method: 'POST' })
    expect([again.status, again.body.data]).toStrictEqual([200, cancelled])
    expect(await readImport(query, jobId)).toStrictEqual(cancelled)
  })

  test('leaves a finished import as it is', async () => {
    const jobId = await uploaded()
    const [lease] = await store.leases.take(Date.now(), 1)
    if (!lease) throw new Error('nothing was taken')
    await store.complete(lease, Date.now())
    const { status, body } = await query.request(path(jobId, '/cancel'), { method: 'POST' })
    expect([status, (body.data as ImportResource).status]).toStrictEqual([200, 'completed'])
    expect(await countLeftovers(query)).toMatchObject({ blobs: 1 })
  })
})

describe('GET /api/v1/imports/{import_id}/errors', () => {
  /** An import with 30 errors in the segments 0 and 2 of four, as the worker writes them. */
  async function importWithErrors(): Promise<{ jobId: string; errors: ImportError[] }> {
    const { importId } = await addImport(store, { site: 'shop', segments: 4 }, Date.now())
    const [lease] = await store.leases.take(Date.now(), 1)
    if (!lease) throw new Error('nothing was taken')
    const all: ImportError[] = []
    for (const n of [0, 1, 2, 3]) {
      const errors = Array.from({ length: [20, 0, 10, 0][n] ?? 0 }, (_, at) => ({
        line: n * segmentRecords + at + 2,
        // As the builds before wrote them, the first ones have no number.
        ...(n === 0 ? {} : { record: n * segmentRecords + at + 1 }),
        ...(at % 3 === 0 ? {} : { field: at % 3 === 1 ? '=cmd()' : 'url' }),
        message: `Invalid field: "url" is bad, ${at}`,
      }))
      all.push(...errors)
      const errorsObject = errors.length === 0 ? null : `imports/${importId}/errors/${n}`
      const lines = errors.map((error) => `${JSON.stringify(error)}\n`).join('')
      if (errorsObject !== null) await query.blobs.write(errorsObject, streamOf(gzipSync(lines)))
      await store.recordSegment(lease, n, {
        processed: segmentRecords,
        failed: errors.length,
        errorsObject,
        publishedEndOffsets: null,
      })
    }
    return { jobId: importId, errors: all }
  }

  test.each([
    ['', 0, 50],
    ['?limit=5', 0, 5],
    ['?limit=5&offset=18', 18, 5],
    ['?limit=1000&offset=20', 20, 1000],
    ['?offset=29', 29, 50],
    ['?offset=30', 30, 50],
  ])('answers a page in the order of the file: %s', async (parameters, offset, limit) => {
    const { jobId, errors } = await importWithErrors()
    const { body } = await query.request(path(jobId, `/errors${parameters}`), { key: own })
    const page = errors.slice(offset, offset + limit)
    expect(body.data).toStrictEqual({ errors: page, total: 30, limit, offset })
  })

  test('reads only the blobs that a page needs', async () => {
    const { jobId, errors } = await importWithErrors()
    const read: string[] = []
    const blobs = {
      read: (name: string) => {
        read.push(name)
        return query.blobs.read(name)
      },
    }
    const segments = await store.segments(jobId)
    const first = await readImportErrors(blobs, segments, 20).next()
    expect([first.value, read]).toStrictEqual([errors[20], [`imports/${jobId}/errors/2`]])
    read.length = 0
    expect([await allOf(readImportErrors(blobs, segments, 30)), read]).toStrictEqual([[], []])
  })

  test('answers all as CSV to Accept: text/csv', async () => {
    const { jobId, errors } = await importWithErrors()
    const response = await fetch(`${query.service.url}${path(jobId, '/errors?limit=1')}`, {
      headers: { Authorization: `Bearer ${own}`, Accept: 'text/csv' },
    })
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(response.headers.get('content-disposition')).toContain(`filename="${jobId}-errors.csv"`)
    const rows = errors.map(
      ({ line, record, field, message }) =>
        `${line},${field === '=cmd()' ? "'=cmd()" : (field ?? '')},"${message.replaceAll('"', '""')}",${record ?? ''}`,
    )
    expect((await response.text()).split('\r\n')).toStrictEqual(['line,field,message,record', ...rows, ''])
  })

  test('responds with 503 while the blobs can’t be read', async () => {
    const { jobId } = await importWithErrors()
    await rename(query.blobsFolder, `${query.blobsFolder}-aside`)
    try {
      for (const headers of [{}, { Accept: 'text/csv' }]) {
        const { status, headers: answered } = await query.request(path(jobId, '/errors'), { headers })
        expect([status, answered.get('retry-after')]).toStrictEqual([503, '1'])
      }
    } finally {
      await rename(`${query.blobsFolder}-aside`, query.blobsFolder)
    }
  })

  test('responds with 410 once the errors are removed', async () => {
    const { jobId } = await importWithErrors()
    const [lease] = await store.leases.take(Date.now() + 60_000, 1)
    if (!lease) throw new Error('nothing was taken')
    await store.complete(lease, Date.now() - 31 * 86_400_000)
    for (const headers of [{}, { Accept: 'text/csv' }]) {
      const response = await fetch(`${query.service.url}${path(jobId, '/errors')}`, {
        headers: { Authorization: `Bearer ${own}`, ...headers },
      })
      expect([response.status, ((await response.json()) as { error: string }).error]).toStrictEqual([
        410,
        'The errors of an import can be read for 30 days after its end',
      ])
    }
  })

  test('of an import without errors are none', async () => {
    const jobId = await uploaded()
    const file = await fetch(`${query.service.url}${path(jobId, '/errors')}`, {
      headers: { Authorization: `Bearer ${query.admin}`, Accept: 'text/csv' },
    })
    expect(await file.text()).toBe('line,field,message,record\r\n')
    const { body } = await query.request(path(jobId, '/errors'))
    expect(body.data).toStrictEqual({ errors: [], total: 0, limit: 50, offset: 0 })
  })
})
