import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { hashKey } from '@sluice/access/api-key'
import { keyCache } from '@sluice/access/key-cache'
import type { AcceptedImport } from '@sluice/contracts/imports'
import { readSegment } from '@sluice/imports/segments'
import { importStore } from '@sluice/postgres/imports'
import { siteStore } from '@sluice/postgres/sites'
import { waitUntil } from '@sluice/runtime/wait-until'
import { allOf } from '../../../tests/support/chunks.ts'
import { exactClock } from '../../../tests/support/clock.ts'
import { addWaitingImports } from '../../../tests/support/import-jobs.ts'
import {
  countLeftovers,
  fieldPart,
  filePart,
  formEnd,
  formType,
  nothing,
  part,
  readImport,
  upload,
  uploadForm,
} from '../../../tests/support/import-uploads.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { connectRaw, startTestService } from '../../../tests/support/test-service.ts'
import { createImportRoute } from './create-import.ts'

let query: TestQuery
let sender: string

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  await siteStore(query.postgres).register(['shop', 'blog'])
  sender = await query.createKey({ scopes: ['events:write'], siteIds: ['shop'], environment: 'dev' })
})

afterAll(async () => {
  await query.stop()
})

afterEach(async () => {
  await query.postgres.db.deleteFrom('imports').execute()
  await query.postgres.db.deleteFrom('uploads').execute()
  for await (const { name } of query.blobs.list('')) await query.blobs.remove([name])
})

const csv = 'event_type,timestamp_ms\nview,1700000000000\nview,1700000000001\n'
const json = JSON.stringify([
  { event_type: 'view', timestamp_ms: 1_700_000_000_000 },
  { event_type: 'view', timestamp_ms: 1_700_000_000_001 },
])
const ndjson =
  '{"event_type":"view","timestamp_ms":1700000000000}\n{"event_type":"view","timestamp_ms":1700000000001}\n'

const fields = [fieldPart('type', 'events'), fieldPart('site_id', 'shop')]

describe('POST /api/v1/imports takes', () => {
  test.each([
    ['CSV', csv, 'csv'],
    [
      'CSV with semicolons, a byte order mark, quotes and mixed ends of lines',
      `\uFEFFevent_type;timestamp_ms\r\n"vi;ew";1700000000000\nview;1700000000001\r\n`,
      'csv',
    ],
    ['an array of JSON', json, 'json'],
    ['NDJSON', ndjson, 'ndjson'],
    ['CSV in gzip', gzipSync(csv), 'csv'],
    ['NDJSON in gzip', gzipSync(ndjson), 'ndjson'],
  ])('%s', async (_, file, format) => {
    const before = Date.now()
    const { status, body } = await upload(query, { file, key: sender })
    expect([status, body.error]).toStrictEqual([202, undefined])
    const { job_id: jobId, ...accepted } = body.data as AcceptedImport
    expect(jobId).toMatch(/^imp_\w{26}$/)
    expect(accepted).toStrictEqual({ status: 'uploading', total_records: 2 })

    const store = importStore(query.postgres)
    const record = await store.find(jobId, null)
    expect(record).toMatchObject({ siteId: 'shop', type: 'events', environment: 'dev', status: 'queued' })
    expect(record?.acceptedAt).toBeGreaterThanOrEqual(record?.createdAt ?? Infinity)
    expect(record?.createdAt).toBeGreaterThanOrEqual(before)
    const [segment, ...others] = await store.segments(jobId)
    expect(others).toHaveLength(0)
    expect(segment).toMatchObject({ object: `imports/${jobId}/segments/0`, firstRecord: 1, records: 2 })
    const { layout, records } = await readSegment(await query.blobs.read(segment?.object ?? ''))
    expect(layout.format).toBe(format)
    expect((await allOf(records)).flat()).toHaveLength(2)
    expect(await countLeftovers(query)).toStrictEqual({ blobs: 1, files: 1, imports: 1, segments: 1, uploads: 0 })
  })

  test.each([
    ['before', [...fields, filePart(csv), formEnd]],
    ['around', [fieldPart('site_id', 'shop'), filePart(csv), fieldPart('type', 'events'), formEnd]],
    ['after', [filePart(csv), ...fields, formEnd]],
  ])('the fields %s the file', async (_, parts) => {
    expect(await uploadForm(query, parts)).toMatchObject({ status: 202, body: { data: { total_records: 2 } } })
  })

  test('users from an administrator', async () => {
    const file = 'user_id,email\nu1,a@example.com\n'
    const { status, body } = await upload(query, { file, fields: { type: 'users' } })
    expect(status).toBe(202)
    expect(await readImport(query, (body.data as AcceptedImport).job_id)).toMatchObject({
      type: 'users',
      total_records: 1,
    })
  })

  test('a site that is new, which is registered', async () => {
    const { status } = await upload(query, { file: csv, fields: { site_id: 'new-site' } })
    expect(status).toBe(202)
    expect(await siteStore(query.postgres).find('new-site')).toMatchObject({ siteId: 'new-site' })
  })

  test.each([
    ['a quote that is not closed', 'event_type,timestamp_ms\nview,1\n"view,2\nview,3\n', 3],
    ['a NUL', 'event_type,timestamp_ms\nview,1\nvi\0ew,2\nview,3\n', 3],
    ['too many cells', 'event_type,timestamp_ms\nview,1,2\nview,2\n', 2],
    ['JSON that can’t be read', '{"event_type":"a"\n{"event_type":"b"}\n', 2],
  ])('a file with a record that has %s: the record is counted, and will fail', async (_, file, records) => {
    expect(await upload(query, { file })).toMatchObject({ status: 202, body: { data: { total_records: records } } })
  })
})

const columns = Array.from({ length: 2_001 }, (_, n) => `properties.c${n}`).join(',')
const known =
  'Known columns: site_id, event_type, timestamp_ms, event_id, session_id, user_id, anonymous_id, url, referrer, country, device_type, properties, properties.<name>'

describe('POST /api/v1/imports refuses, and leaves neither blobs, rows nor files of', () => {
  test.each<[string, string | Uint8Array<ArrayBuffer>, number, string]>([
    ['an empty file', '', 400, 'Invalid format: file is empty'],
    ['a file of blanks', ' \n\n', 400, 'Invalid format: file holds no record'],
    [
      'a record without a header',
      'e1,shop,view,1767225600000\n',
      400,
      'Invalid format: file holds no record: its only line is taken for the header, which names the columns (event_type, timestamp_ms for events; user_id for users)',
    ],
    ['an empty list', '[]', 400, 'Invalid format: file holds no record'],
    [
      'gzip that ends early',
      gzipSync(csv).subarray(0, 30),
      400,
      'Invalid format: gzip of the file ends early: the file is not complete',
    ],
    [
      'gzip that is damaged',
      Buffer.from([...gzipSync(csv).subarray(0, 10), 255, 255, 255, 255]),
      400,
      'Invalid format: gzip of the file is damaged',
    ],
    ['gzip twice', gzipSync(gzipSync(csv)), 400, 'Invalid format: file is compressed with gzip twice'],
    [
      'UTF-16',
      Buffer.from(`\uFEFF${csv}`, 'utf16le'),
      400,
      'Invalid format: file is not UTF-8 but UTF-16: export it as CSV or JSON in UTF-8',
    ],
    [
      'XLSX',
      Buffer.from('PK\x03\x04 a workbook'),
      400,
      'Invalid format: file is an Excel workbook or a zip archive: export it as CSV or JSON in UTF-8',
    ],
    ['2,001 columns', `${columns}\n1\n`, 400, 'Invalid format: header has 2001 columns, more than 2000'],
    ['a column that is named twice', 'event_type,url,url\n', 400, 'Invalid format: header names column "url" twice'],
    [
      'two names of one column',
      'event_type,timestamp,timestamp_ms\na,1,1\n',
      400,
      'Invalid format: two columns hold "timestamp_ms"',
    ],
    [
      'an unknown column',
      'event_type,timestamp_ms,plan\na,1,b\n',
      400,
      `Invalid format: column "plan" is not known. ${known}`,
    ],
    ['a missing column', 'event_type,url\na,b\n', 400, `Invalid format: column "timestamp_ms" is missing. ${known}`],
  ])('%s', async (_, file, status, error) => {
    const answer = await upload(query, { file })
    expect([answer.status, answer.body.error]).toStrictEqual([status, error])
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  const form = 'Invalid format: body is not valid multipart/form-data'
  test.each<[string, Buffer[], string]>([
    ['a form without a file', [...fields, formEnd], 'Missing required field: file'],
    ['two files', [...fields, filePart(csv), filePart(csv), formEnd], 'Invalid format: body must have one file'],
    [
      'a file in another field',
      [...fields, filePart(csv, 'upload'), formEnd],
      'Invalid format: the file must be in the field "file"',
    ],
    ['a part without a name', [part('', 'x'), ...fields, filePart(csv), formEnd], form],
    ['a form that ends early', [...fields, filePart(csv)], form],
    ['a form without parts', [formEnd], 'Missing required field: file'],
    ['no type', [fieldPart('site_id', 'shop'), filePart(csv), formEnd], 'Missing required field: type'],
    [
      'an empty type',
      [fieldPart('type', ''), ...fields.slice(1), filePart(csv), formEnd],
      'Missing required field: type',
    ],
    [
      'another type',
      [fieldPart('type', 'sessions'), filePart(csv), fieldPart('site_id', 'shop'), formEnd],
      'Invalid field: type must be one of: events, users',
    ],
    ['no site', [fieldPart('type', 'events'), filePart(csv), formEnd], 'Missing required field: site_id'],
    [
      'an unknown field',
      [...fields, filePart(csv), fieldPart('name', 'x'), formEnd],
      'Invalid field: name is not known',
    ],
  ])('%s', async (_, parts, error) => {
    const { status, body } = await uploadForm(query, parts)
    expect([status, body.error]).toStrictEqual([400, error])
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  test('a key without the scope, and users from one that is no administrator', async () => {
    const reader = await query.createKey({ scopes: ['stats:read'] })
    const answers = [
      await upload(query, { file: csv, key: reader }),
      await upload(query, { file: 'user_id\nu1\n', key: sender, fields: { type: 'users' } }),
    ]
    expect(answers.map(({ status, body }) => [status, body.error])).toStrictEqual([
      [403, 'Insufficient scope: requires events:write'],
      [403, 'Insufficient scope: requires admin'],
    ])
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  test.each<[string, NonNullable<Parameters<typeof query.createKey>[0]>]>([
    ['allowed_origins', { allowedOrigins: ['https://shop.example'] }],
    ['events_per_minute_per_address', { rateLimits: { events_per_minute_per_address: 300 } }],
  ])('a key of web pages, with %s; it can neither list nor cancel imports', async (field, parts) => {
    const { body: accepted } = await upload(query, { file: csv })
    const { job_id: jobId } = accepted.data as AcceptedImport
    const key = await query.createKey({ scopes: ['events:write'], ...parts })
    const answers = [
      await upload(query, { file: csv, key }),
      await query.request('/api/v1/imports?site_id=shop', { key }),
      await query.request(`/api/v1/imports/${jobId}/cancel`, { method: 'POST', key }),
    ]
    const error = `A key with ${field} cannot be used for imports: use a key without it`
    for (const { status, body } of answers) expect([status, body.error]).toStrictEqual([403, error])
    expect(await importStore(query.postgres).find(jobId, null)).toMatchObject({ status: 'queued' })
  })

  test('a site that the key is not bound to, be it known or not', async () => {
    for (const siteId of ['blog', 'nobody']) {
      const { status, body } = await upload(query, { file: csv, key: sender, fields: { site_id: siteId } })
      expect([status, body.error]).toStrictEqual([403, 'Key is not allowed for this site'])
    }
    expect(await siteStore(query.postgres).find('nobody')).toBeUndefined()
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  test('a body that announces more than 2 GiB, before it is sent', async () => {
    const { send, received, socket } = await openUpload(3 * 1024 ** 3)
    send('')
    expect(await received(/Request body is larger than 2147483648 bytes/)).toMatch(/^HTTP\/1\.1 413 /)
    socket.destroy()
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  test('an upload that its client breaks off', async () => {
    const { send, socket } = await openUpload(50_000_000)
    send(Buffer.concat([...fields, filePart(`event_type,timestamp_ms\n${'view,1700000000000\n'.repeat(50_000)}`)]))
    await waitUntil(async () => (await countLeftovers(query)).files === 1, 'a segment is being written')
    socket.destroy()
    await waitUntil(async () => (await countLeftovers(query)).uploads === 0, 'the upload has ended')
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })
})

describe('POST /api/v1/imports refuses, and leaves nothing of, an upload during which its key', () => {
  const actor = { keyId: 'key_test', siteIds: null }
  const keys = () => query.keys
  test.each<[string, (keyId: string) => Promise<unknown>, number, string]>([
    ['is revoked', (keyId) => keys().revoke(keyId, null), 401, 'Invalid API key'],
    ['expires', (keyId) => keys().update(keyId, actor, () => ({ expiresAt: Date.now() - 1 })), 401, 'Invalid API key'],
    [
      'loses the scope',
      (keyId) => keys().update(keyId, actor, () => ({ scopes: ['stats:read'] })),
      403,
      'Insufficient scope: requires events:write',
    ],
    [
      'loses the site',
      (keyId) => keys().update(keyId, actor, () => ({ siteIds: ['blog'] })),
      403,
      'Key is not allowed for this site',
    ],
    [
      'becomes one of web pages',
      (keyId) => keys().update(keyId, actor, () => ({ allowedOrigins: ['https://shop.example'] })),
      403,
      'A key with allowed_origins cannot be used for imports: use a key without it',
    ],
    [
      'gets a limit for each address',
      (keyId) => keys().update(keyId, actor, () => ({ rateLimits: { events_per_minute_per_address: 300 } })),
      403,
      'A key with events_per_minute_per_address cannot be used for imports: use a key without it',
    ],
  ])('%s', async (_, change, status, error) => {
    const key = await query.createKey({ scopes: ['events:write'], siteIds: ['shop'] })
    const { keyId = '' } = (await query.keys.findByHash(hashKey(key))) ?? {}
    const body = Buffer.concat([...fields, filePart(csv), formEnd])
    const { send, received, socket } = await openUpload(body.length, bearer(key))
    await waitUntil(async () => (await countLeftovers(query)).uploads === 1, 'the upload is under way')
    await change(keyId)
    send(body)
    const answer = await received(/\r\n\r\n{.*}/)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(answer).toContain(`"error":"${error}"`)
    socket.destroy()
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })
})

describe('an upload of a session', () => {
  async function openSession(): Promise<string> {
    const { body } = await query.request('/api/v1/session', { method: 'POST', key: '', body: { api_key: sender } })
    return `session=${(body.data as { session_token: string }).session_token}`
  }

  async function uploadDuring(Cookie: string, change: () => Promise<unknown>): Promise<string> {
    const body = Buffer.concat([...fields, filePart(csv), formEnd])
    const { send, received, socket } = await openUpload(body.length, `Cookie: ${Cookie}`)
    await waitUntil(async () => (await countLeftovers(query)).uploads === 1, 'the upload is under way')
    await change()
    send(body)
    const answer = await received(/\r\n\r\n{.*}/)
    socket.destroy()
    return answer
  }

  test('that goes on is stored', async () =>
    expect(await uploadDuring(await openSession(), () => Promise.resolve())).toMatch(/^HTTP\/1\.1 202 /))

  test('that ends meanwhile is refused with 401, and leaves nothing', async () => {
    const Cookie = await openSession()
    const answer = await uploadDuring(Cookie, () =>
      query.request('/api/v1/session', { method: 'DELETE', key: '', headers: { Cookie } }),
    )
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
    expect(answer).toContain('"error":"Invalid API key"')
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })
})

const bearer = (key: string): string => `Authorization: Bearer ${key}`

/** A connection that has sent the headers of an upload. */
async function openUpload(length: number, credential = bearer(query.admin)) {
  const connection = await connectRaw(query.service.port)
  connection.send(
    `POST /api/v1/imports HTTP/1.1\r\nHost: a\r\n${credential}\r\nContent-Type: ${formType}\r\nContent-Length: ${length}\r\n\r\n`,
  )
  return connection
}

test('an upload is renewed every 15 s while its body arrives, so that it does not lapse', async () => {
  const timers = jest.spyOn(globalThis, 'setInterval')
  const body = Buffer.concat([...fields, filePart(csv), formEnd])
  const { send, received, socket } = await openUpload(body.length)
  await waitUntil(async () => (await countLeftovers(query)).uploads === 1, 'the upload is under way')
  const renewals = timers.mock.calls.filter(([, ms]) => ms === 15_000)
  timers.mockRestore()
  expect(renewals).toHaveLength(1)
  const { db } = query.postgres
  await db
    .updateTable('uploads')
    .set({ expires_at: new Date(0) })
    .execute()
  const [renew] = renewals[0] ?? []
  renew?.()
  const end = async () => (await db.selectFrom('uploads').select('expires_at').executeTakeFirstOrThrow()).expires_at
  await waitUntil(async () => (await end()).getTime() > Date.now() + 45_000, 'the upload counts for another minute')
  send(body)
  expect(await received(/\r\n\r\n{.*}/)).toMatch(/^HTTP\/1\.1 202 /)
  socket.destroy()
})

test('a key has four uploads at once; the fifth is refused before its body is read', async () => {
  const open = []
  for (let n = 0; n < 4; n++) open.push(await openUpload(1_000, bearer(sender)))
  await waitUntil(async () => (await countLeftovers(query)).uploads === 4, 'four uploads are under way')
  const fifth = await openUpload(1_000, bearer(sender))
  const answer = await fifth.received(/\r\n\r\n{.*}/)
  expect(answer).toMatch(/^HTTP\/1\.1 429 /)
  expect(answer).toMatch(/\r\nRetry-After: 10\r\n/)
  expect(answer).toContain('"error":"Rate limit exceeded. Retry after 10 seconds."')
  expect((await upload(query, { file: csv })).status).toBe(202)
  for (const { socket } of [fifth, ...open]) socket.destroy()
  await waitUntil(async () => (await countLeftovers(query)).uploads === 0, 'the uploads have ended')
  expect((await upload(query, { file: csv, key: sender })).status).toBe(202)
})

test('a key has 1,000 imports that have not ended; one more is refused before its body is read', async () => {
  const { body } = await upload(query, { file: csv, key: sender })
  const { job_id: first } = body.data as AcceptedImport
  const keyId = (await importStore(query.postgres).find(first, null))?.keyId ?? ''
  await addWaitingImports(query.postgres, keyId, 999)
  const further = await openUpload(1_000, bearer(sender))
  const answer = await further.received(/\r\n\r\n{.*}/)
  expect(answer).toMatch(/^HTTP\/1\.1 409 /)
  expect(answer).toContain('"error":"The key has 1000 imports that have not ended: wait, or cancel some"')
  further.socket.destroy()
  expect((await upload(query, { file: csv })).status).toBe(202)
  await query.request(`/api/v1/imports/${first}/cancel`, { method: 'POST', key: sender })
  expect((await upload(query, { file: csv, key: sender })).status).toBe(202)
})

describe('with small limits', () => {
  let stop: () => Promise<void>
  let url: string

  beforeAll(async () => {
    const { postgres, blobs, keys } = query
    const sites = siteStore(postgres)
    const route = createImportRoute({
      keys,
      sessions: { find: () => Promise.resolve(undefined) },
      sites: { findOrRegister: (siteId) => sites.find(siteId) },
      imports: importStore(postgres),
      blobs,
      clock: exactClock,
      limits: { segmentRecordsMax: 10, unpackedBytesMax: 600_000, recordsMax: 35 },
    })
    const service = await startTestService(
      { routes: [route] },
      keyCache(keys, { logger: query.service.logger, clock: exactClock }),
    )
    ;({ url, stop } = service)
  })

  afterAll(async () => {
    await stop()
  })

  test('a file becomes segments, whose rows say where they begin', async () => {
    const file = `event_type,timestamp_ms\n${'view,1\n'.repeat(25)}`
    const { status, body } = await upload(query, { file, url })
    expect(status).toBe(202)
    const { job_id: jobId } = body.data as AcceptedImport
    const segments = await importStore(query.postgres).segments(jobId)
    expect(
      segments.map(({ n, firstRecord, firstLine, records }) => [n, firstRecord, firstLine, records]),
    ).toStrictEqual([
      [0, 1, 2, 10],
      [1, 11, 12, 10],
      [2, 21, 22, 5],
    ])
    expect(await countLeftovers(query)).toMatchObject({ blobs: 3, segments: 3 })
  })

  test('gzip that unpacks to more than it may is refused, and nothing is left of it', async () => {
    // Some segments are stored before the limit is reached.
    const bomb = gzipSync(`event_type,timestamp_ms\n${`${'v'.repeat(20_000)},1\n`.repeat(40)}`)
    const { status, body } = await upload(query, { file: bomb, url })
    expect([status, body.error]).toStrictEqual([413, 'File has more than 600000 bytes after decompression'])
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  test('a small gzip of more records than a file may have is refused, and nothing is left of it', async () => {
    // Some segments are stored before the limit is reached.
    const bomb = gzipSync(`event_type,timestamp_ms\n${`${'v'.repeat(15_000)},1\n`.repeat(36)}`)
    const { status, body } = await upload(query, { file: bomb, url })
    expect([status, body.error]).toStrictEqual([413, 'File has more than 35 records: split it'])
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  test('a site that is not known and does not register itself is 404', async () => {
    const { status, body } = await upload(query, { file: csv, url, fields: { site_id: 'unknown' } })
    expect([status, body.error]).toStrictEqual([404, 'Site not found'])
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })
})
