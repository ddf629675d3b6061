import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { StoreBackup } from '@sluice/event-store/backup'
import { appliedPostgresMigrations } from '@sluice/postgres/migrate'
import { testSecretsKey } from '../../../tests/support/secrets-key.ts'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { type BackupEngines, renewPostgresDump } from './backup.ts'
import { fingerprintOf, manifestFormat, readManifest, writeManifest } from './manifest.ts'

const keys = { secretsKey: testSecretsKey, previousSecretsKey: undefined }
const storeId = 'b1c2b1f0-0000-4000-8000-000000000000'

let postgres: TestPostgres
let folder: string
let store: BlobStore
let engines: BackupEngines

beforeEach(async () => {
  postgres = await openTestPostgres()
  folder = await mkdtemp(join(tmpdir(), 'sluice-backup-'))
  await writeFile(join(folder, 'pg_dump'), '#!/bin/sh\necho a dump\n')
  await chmod(join(folder, 'pg_dump'), 0o755)
  store = await openBlobStore(`file:${join(folder, 'backup')}`)
  engines = {
    postgres,
    programs: { url: postgres.url, searchPath: folder },
    clickHouse: { storeId: () => Promise.resolve(storeId) } as StoreBackup,
    logUrl: '',
    blobs: store,
  }
  const empty = { name: '', bytes: 0, sha256: '' }
  const lane = { logId: 'log', next: ['0'] }
  await store.write('postgres-1.dump', [])
  await writeManifest(store, {
    format: manifestFormat.oneServer,
    backupId: 'bak_1',
    at: 1,
    build: 1,
    lanes: { live: lane, backfill: lane },
    schemas: { postgres: await appliedPostgresMigrations(postgres), clickHouse: [] },
    secretsKeyFingerprint: fingerprintOf(testSecretsKey),
    clickHouse: {
      storeId,
      database: 'sluice',
      place: { kind: 'disk', disk: 'backups', name: 'bak_1' },
      bytes: 0,
      base: null,
    },
    postgres: { ...empty, name: 'postgres-1.dump', at: 1 },
    blobs: { ...empty, name: 'blobs.ndjson' },
  })
})

afterEach(async () => {
  await store.close()
  await postgres.drop()
  await rm(folder, { recursive: true })
})

const namedDump = async (): Promise<string> => (await readManifest(store, 'the backup')).postgres.name

async function dumps(): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of store.list('postgres-')) names.push(name)
  return names.sort()
}

test('a slow dump of Postgres does not replace the newer one of a later call, and is not left', async () => {
  const isWritten = Promise.withResolvers<undefined>()
  const mayEnd = Promise.withResolvers<undefined>()
  const slowStore: BlobStore = {
    ...store,
    write: async (...blob) => {
      const written = await store.write(...blob)
      isWritten.resolve(undefined)
      await mayEnd.promise
      return written
    },
  }
  const slow = renewPostgresDump(engines, { target: { url: 'the backup', store: slowStore }, ...keys })
  await isWritten.promise
  await renewPostgresDump(engines, { target: { url: 'the backup', store }, ...keys })
  const newer = await namedDump()
  mayEnd.resolve(undefined)
  await slow
  expect(await namedDump()).toBe(newer)
  expect(await dumps()).toStrictEqual(['postgres-1.dump', newer])
})

test('overlapping calls leave the dump that the backup names, and the one before it', async () => {
  for (let round = 0; round < 5; round++) {
    const calls = Array.from({ length: 4 }, () =>
      renewPostgresDump(engines, { target: { url: 'the backup', store }, ...keys }),
    )
    expect((await Promise.all(calls)).filter(Boolean)).not.toStrictEqual([])
    expect((await dumps()).at(-1)).toBe(await namedDump())
    expect((await dumps()).length).toBeLessThanOrEqual(4)
  }
})

test('a dump that is older than the one of the backup is not kept', async () => {
  const manifest = await readManifest(store, 'the backup')
  await store.write('postgres-9999999999999.dump', [])
  const newer = { ...manifest.postgres, name: 'postgres-9999999999999.dump', at: 9_999_999_999_999 }
  await writeManifest(store, { ...manifest, postgres: newer })
  expect(await renewPostgresDump(engines, { target: { url: 'the backup', store }, ...keys })).toBe(false)
  expect(await namedDump()).toBe(newer.name)
})

test('dumps that commands which were killed have left are removed with the next renewal', async () => {
  const renew = () => renewPostgresDump(engines, { target: { url: 'the backup', store }, ...keys })
  await renew()
  const former = await namedDump()
  await store.write('postgres-2.dump', [])
  await renew()
  // A call that has lost its lock while it wrote the manifest may still name the former one.
  expect(await dumps()).toStrictEqual([former, await namedDump()])
})
