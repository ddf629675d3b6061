import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { keyCache } from '@sluice/access/key-cache'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { type ImportStore, importStore } from '@sluice/postgres/imports'
import { siteStore } from '@sluice/postgres/sites'
import { unavailable } from '@sluice/runtime/errors'
import { exactClock } from '../../../tests/support/clock.ts'
import { countLeftovers, nothing, upload } from '../../../tests/support/import-uploads.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { startTestService, type TestService } from '../../../tests/support/test-service.ts'
import { mountTmpfs, testWithTmpfs, unmount } from '../../../tests/support/tmpfs.ts'
import { createImportRoute } from './create-import.ts'

let query: TestQuery
let store: ImportStore
const services: TestService[] = []
const csv = 'event_type,timestamp_ms\nview,1700000000000\n'
const away = { status: 503, body: { error: 'Service temporarily unavailable' } }

beforeAll(async () => {
  query = await startQuery()
  store = importStore(query.postgres)
  await siteStore(query.postgres).register(['shop'])
})

afterAll(async () => {
  await query.stop()
})

afterEach(async () => {
  for (const service of services.splice(0)) await service.stop()
  await query.postgres.db.deleteFrom('imports').execute()
  await query.postgres.db.deleteFrom('uploads').execute()
  for await (const { name } of query.blobs.list('')) await query.blobs.remove([name])
})

/** Uploads a file to a service with one faulty part. */
async function uploadTo(parts: Partial<Parameters<typeof createImportRoute>[0]>, file: string) {
  const sites = siteStore(query.postgres)
  const route = createImportRoute({
    keys: query.keys,
    sessions: { find: () => Promise.resolve(undefined) },
    sites: { findOrRegister: (siteId) => sites.find(siteId) },
    imports: store,
    blobs: query.blobs,
    clock: exactClock,
    ...parts,
  })
  const service = await startTestService(
    { routes: [route] },
    keyCache(query.keys, { logger: query.service.logger, clock: exactClock }),
  )
  services.push(service)
  return upload(query, { file, url: service.url })
}

describe('when the connection to Postgres breaks while the import is stored', () => {
  const lost = unavailable('Postgres: the connection broke')

  test('after Postgres has stored it, the upload is accepted', async () => {
    const create: ImportStore['create'] = async (...parts) => {
      await store.create(...parts)
      throw lost
    }
    expect(await uploadTo({ imports: { ...store, create } }, csv)).toMatchObject({ status: 202 })
    expect(await countLeftovers(query)).toMatchObject({ blobs: 1, imports: 1, segments: 1, uploads: 0 })
  })

  test('before Postgres has stored it, the upload is refused and nothing is left', async () => {
    const create = () => Promise.reject(lost)
    expect(await uploadTo({ imports: { ...store, create } }, csv)).toMatchObject(away)
    expect(await countLeftovers(query)).toStrictEqual(nothing)
  })

  test('after Postgres has stored it, the upload is accepted although Postgres is unavailable for a moment', async () => {
    const create: ImportStore['create'] = async (...parts) => {
      await store.create(...parts)
      throw lost
    }
    let calls = 0
    const end = (importId: string) => ((calls += 1) === 1 ? Promise.reject(lost) : store.uploads.end(importId))
    const uploads = { ...store.uploads, end }
    expect(await uploadTo({ imports: { ...store, create, uploads } }, csv)).toMatchObject({ status: 202 })
    expect(await countLeftovers(query)).toMatchObject({ blobs: 1, imports: 1, segments: 1, uploads: 0 })
  })

  test('and nobody can tell whether it is stored, the file is kept', async () => {
    const create: ImportStore['create'] = async (...parts) => {
      await store.create(...parts)
      throw lost
    }
    const uploads = { ...store.uploads, end: () => Promise.reject(lost) }
    expect(await uploadTo({ imports: { ...store, create, uploads } }, csv)).toMatchObject(away)
    expect(await countLeftovers(query)).toMatchObject({ blobs: 1, imports: 1, segments: 1 })
  })
})

test('a disk that is nearly full answers 503 from its next segment on, and nothing is left', async () => {
  const mebibyte = 1024 * 1024
  const disks = [130, 100, 99].map((mebibytes) => ({ freeBytes: mebibytes * mebibyte, sizeBytes: 1_000 * mebibyte }))
  let asked = 0
  const blobs = { ...query.blobs, disk: () => Promise.resolve(disks[asked++]) }
  const limits = { segmentRecordsMax: 1, segmentBytesMax: 1_000 }
  const rows = csv + 'view,1700000000001\n'.repeat(3)
  expect(await uploadTo({ blobs, limits }, rows)).toMatchObject(away)
  expect(asked).toBe(3)
  expect(await countLeftovers(query)).toStrictEqual(nothing)
})

const disk = mkdtempSync(join(tmpdir(), 'sluice-disk-'))

afterAll(() => {
  rmSync(disk, { recursive: true })
})

testWithTmpfs('a disk that fills up answers 503, and nothing is left', async () => {
  mountTmpfs(disk, 'size=8m')
  try {
    const blobs = await openBlobStore(`file:${disk}`)
    const incompressible = randomBytes(12_000_000)
      .toString('base64')
      .replaceAll(/.{1000}/g, '$&,1\n')
    const full = { ...query, blobs, blobsFolder: disk }
    expect(await uploadTo({ blobs }, `event_type,timestamp_ms\n${incompressible}`)).toMatchObject(away)
    expect(await countLeftovers(full)).toStrictEqual(nothing)
    expect(await uploadTo({ blobs }, csv)).toMatchObject({ status: 202 })
  } finally {
    unmount(disk)
  }
})
