import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { LeaseLostError } from '@sluice/leases/lease-table'
import { addImport, segmentDone, segmentRecords } from '../../tests/support/import-jobs.ts'
import { tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type ImportStore, importStore } from './imports.ts'
import { openPostgres } from './open.ts'

const noon = Date.UTC(2042, 5, 1, 12)
const created = {
  importId: 'imp_1',
  siteId: 'shop',
  environment: 'dev',
  type: 'users',
  keyId: 'key_1',
  sha256: 'ff',
} as const
const segments = [
  { n: 0, object: 'a', firstRecord: 1, firstLine: 2, records: 70 },
  { n: 1, object: 'b', firstRecord: 71, firstLine: 75, records: 30 },
]
let postgres: TestPostgres
let store: ImportStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = importStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('imports').execute()
})

async function take(now: number) {
  const [taken] = await store.leases.take(now, 1)
  if (!taken) throw new Error('nothing was taken')
  return taken
}

describe('a complete upload', () => {
  test('becomes an import with its segments, which is processing when it is taken', async () => {
    await store.uploads.begin(created, noon)
    const record = await store.create({ ...created, segments, createdAt: noon - 5 }, noon)
    expect(record).toStrictEqual({
      ...created,
      seq: expect.any(Number) as unknown,
      status: 'queued',
      totalRecords: 100,
      processedRecords: 0,
      failedRecords: 0,
      error: null,
      createdAt: noon - 5,
      acceptedAt: noon,
      finishedAt: null,
    })
    expect(await store.find('imp_1', null)).toStrictEqual(record)
    expect(await store.segments('imp_1')).toStrictEqual(
      segments.map((segment) => ({
        ...segment,
        processed: 0,
        failed: 0,
        errorsObject: null,
        publishedEndOffsets: null,
      })),
    )
    expect((await take(noon)).job).toMatchObject({ importId: 'imp_1', status: 'processing' })
    expect(await store.find('imp_1', null)).toMatchObject({ status: 'processing' })
    expect(await store.uploads.end('imp_1')).toBe(false)
  })

  test('that has ended becomes no import', async () => {
    await store.uploads.begin(created, noon)
    expect(await store.uploads.end('imp_1')).toBe(true)
    const late = store.create({ ...created, segments, createdAt: noon }, noon)
    await expect(late).rejects.toMatchObject({ code: 'unavailable', retryable: true })
    expect(await store.find('imp_1', null)).toBeUndefined()
  })
})

describe('the progress of a segment', () => {
  test('is stored with the counts of the import', async () => {
    const { importId } = await addImport(store, { segments: 2 }, noon)
    const lease = await take(noon)
    expect(await store.nextSegment(importId)).toStrictEqual((await store.segments(importId))[0])
    await store.recordSegment(lease, 1, {
      processed: 40,
      failed: 3,
      errorsObject: 'e',
      publishedEndOffsets: { 0: '7' },
    })
    expect(await store.find(importId, null)).toMatchObject({ processedRecords: 40, failedRecords: 3 })
    await store.recordSegment(lease, 0, segmentDone)
    await store.recordSegment(lease, 0, segmentDone)
    expect(await store.find(importId, null)).toMatchObject({ processedRecords: 140, failedRecords: 4 })
    expect(await store.nextSegment(importId)).toMatchObject({ n: 1, processed: 40 })
    expect((await store.segments(importId))[1]).toMatchObject({
      processed: 40,
      failed: 3,
      errorsObject: 'e',
      publishedEndOffsets: { 0: '7' },
    })
    await store.recordSegment(lease, 1, segmentDone)
    expect(await store.nextSegment(importId)).toBeUndefined()
  })

  test('resets the counts of failures', async () => {
    await addImport(store, {}, noon)
    const lease = await take(noon)
    await store.leases.countFailure(lease, { isCausedByJob: true })
    await store.recordSegment(lease, 0, segmentDone)
    expect(await store.leases.countFailure(lease, { isCausedByJob: true })).toStrictEqual({ tries: 1, failures: 1 })
  })

  test('changes neither the segment nor the import without the lease', async () => {
    const { importId } = await addImport(store, {}, noon)
    const lost = await take(noon)
    await take(noon + 30_000)
    const before = [await store.find(importId, null), await store.segments(importId)]
    await expect(store.recordSegment(lost, 0, segmentDone)).rejects.toThrow(LeaseLostError)
    await expect(store.complete(lost, noon)).rejects.toThrow(LeaseLostError)
    await expect(store.leases.fail(lost, 'text', noon)).rejects.toThrow(LeaseLostError)
    expect([await store.find(importId, null), await store.segments(importId)]).toStrictEqual(before)
  })

  test('can not exceed the records of the segment', async () => {
    const { importId } = await addImport(store, {}, noon)
    const lease = await take(noon)
    const excess = { ...segmentDone, processed: segmentRecords + 1 }
    await expect(store.recordSegment(lease, 0, excess)).rejects.toMatchObject({ code: '23514' })
    expect(await store.find(importId, null)).toMatchObject({ processedRecords: 0 })
  })
})

describe('an import ends', () => {
  test('completed, and is not taken again even when its lease is never released', async () => {
    const { importId } = await addImport(store, {}, noon)
    await store.complete(await take(noon), noon + 9)
    expect(await store.find(importId, null)).toMatchObject({ status: 'completed', finishedAt: noon + 9 })
    expect(await store.leases.take(noon + 60_000, 1)).toStrictEqual([])
  })

  test('failed, with a text for users', async () => {
    const { importId } = await addImport(store, {}, noon)
    await store.leases.fail(await take(noon), 'Nothing could be read', noon + 9)
    const failed = { status: 'failed', error: 'Nothing could be read', finishedAt: noon + 9 }
    expect(await store.find(importId, null)).toMatchObject(failed)
  })

  test('cancelled, whatever it was doing; what was recorded stays', async () => {
    const { importId } = await addImport(store, {}, noon)
    const lease = await take(noon)
    await store.recordSegment(lease, 0, segmentDone)
    const cancelled = { status: 'cancelled', finishedAt: noon + 9, processedRecords: segmentRecords }
    expect(await store.cancel(importId, ['other'], noon)).toBeUndefined()
    expect(await store.cancel(importId, null, noon + 9)).toMatchObject(cancelled)
    await expect(store.recordSegment(lease, 0, segmentDone)).rejects.toThrow(LeaseLostError)
    expect(await store.cancel(importId, null, noon + 10)).toMatchObject(cancelled)
  })

  test('once: a finished import can not be cancelled', async () => {
    const { importId } = await addImport(store, {}, noon)
    await store.complete(await take(noon), noon + 9)
    expect(await store.cancel(importId, null, noon + 10)).toMatchObject({ status: 'completed' })
  })
})

test('a key with imports on very many sites does not delay the import of another key', async () => {
  for (let n = 0; n < 50; n += 1) await addImport(store, { keyId: 'key_a', segments: 2 }, noon)
  const { importId } = await addImport(store, { keyId: 'key_b', segments: 100 }, noon + 5)
  let units = 0
  let ofB = 0
  /** Each unit takes a second; the first segment of an import is not its end. */
  const work = async () => {
    units += 1
    const lease = await take(noon + units * 1_000)
    if (lease.id === importId) ofB += 1
    if (lease.lease > 1 && lease.id !== importId) await store.complete(lease, noon + units * 1_000 + 900)
    else await store.leases.release(lease, noon + units * 1_000 + 900, { isProgress: true })
  }
  while (units < 5) await work()
  expect(ofB).toBeGreaterThan(0)
  while (units < 60) await work()
  // Neither key gets much more than half of the turns.
  expect(ofB).toBeGreaterThan(18)
  expect(ofB).toBeLessThan(42)
})

test('what runs of a key counts as its turn', async () => {
  for (let n = 0; n < 3; n += 1) await addImport(store, { keyId: 'key_a' }, noon)
  const running = await take(noon + 1)
  const { importId } = await addImport(store, { keyId: 'key_b' }, noon + 5)
  for (let second = 1; second < 9; second += 1) {
    const lease = await take(noon + second * 1_000)
    expect(lease.id).toBe(importId)
    await store.leases.release(lease, noon + second * 1_000 + 900, { isProgress: true })
  }
  await store.complete(running, noon + 9_000)
})

describe('of the imports of one site', () => {
  test('only the oldest that is not finished is taken, whatever the others do', async () => {
    const site = 'shop'
    const imports = [await addImport(store, { site }, noon), await addImport(store, { site }, noon - 5)]
    const other = await addImport(store, { site: 'blog' }, noon)
    const taken = await store.leases.take(noon, 10)
    for (const lease of taken) if (lease.id === other.importId) await store.complete(lease, noon)
    expect(taken.map(({ id }) => id).sort()).toStrictEqual([imports[0]?.importId, other.importId].sort())
    const [first] = taken.filter(({ id }) => id === imports[0]?.importId)
    if (!first) throw new Error('the oldest was not taken')
    await store.leases.release(first, noon + 60_000, { isProgress: false })
    expect(await store.leases.take(noon, 10)).toStrictEqual([])
    expect(await store.leases.oldestDue(noon)).toBeUndefined()
    const again = await take(noon + 60_000)
    expect(again.id).toBe(first.id)
    await store.complete(again, noon)
    expect((await take(noon + 60_000)).id).toBe(imports[1]?.importId)
  })

  test.each(['completed', 'cancelled'])('the next one is behind those of other sites when one is %s', async (end) => {
    const site = 'shop'
    const first = await addImport(store, { site }, noon)
    const next = await addImport(store, { site }, noon)
    const other = await addImport(store, { site: 'blog' }, noon + 5)
    if (end === 'completed') await store.complete(await take(noon), noon + 9)
    else await store.cancel(first.importId, null, noon + 9)
    expect((await take(noon + 10)).id).toBe(other.importId)
    expect((await take(noon + 10)).id).toBe(next.importId)
  })
})

test('imports are listed newest first, page by page, and are found at their sites only', async () => {
  const site = 'shop'
  const added = []
  for (const at of [noon, noon + 1, noon + 2]) added.push(await addImport(store, { site }, at))
  await addImport(store, { site: 'blog' }, noon)
  await addImport(store, { site, type: 'users' }, noon)
  const ids = async (limit: number, offset: number) => {
    const { imports, total } = await store.list(site, ['events'], { limit, offset })
    expect(total).toBe(3)
    return imports.map(({ importId }) => importId)
  }
  const newestFirst = added.map(({ importId }) => importId).reverse()
  expect([...(await ids(2, 0)), ...(await ids(2, 2))]).toStrictEqual(newestFirst)
  expect(await store.find(newestFirst[0] ?? '', ['blog'])).toBeUndefined()
  expect(await store.find(newestFirst[0] ?? '', ['blog', site])).toMatchObject({ importId: newestFirst[0] })
})

test('while Postgres is unavailable, the store and its leases throw AppError 503', async () => {
  const proxy = await tcpProxy(postgres.url)
  const away = openPostgres(proxy.url)
  const lost = importStore(away)
  await proxy.cut()
  const lease = { id: 'imp_1', lease: 1 }
  const calls = [
    () => lost.create({ ...created, segments, createdAt: noon }, noon),
    () => lost.find('imp_1', null),
    () => lost.recordSegment(lease, 0, segmentDone),
    () => lost.complete(lease, noon),
    () => lost.leases.take(noon, 1),
    () => lost.leases.renew(lease, noon),
    () => lost.leases.release(lease, noon, { isProgress: true }),
    () => lost.leases.countFailure(lease, { isCausedByJob: false }),
    () => lost.leases.oldestDue(noon),
  ]
  for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  await away.close()
})
