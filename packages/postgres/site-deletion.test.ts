import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import { sql } from 'kysely'
import type { CohortSettings } from '@sluice/contracts/cohorts'
import { dayMs } from '@sluice/contracts/time-units'
import { newId } from '@sluice/runtime/ids'
import { addRule } from '../../tests/support/alert-rules.ts'
import { addExport } from '../../tests/support/export-jobs.ts'
import { addImport, segmentDone } from '../../tests/support/import-jobs.ts'
import {
  lockAwaited,
  openTestPostgres,
  refuseLargeStatements,
  type TestPostgres,
} from '../../tests/support/test-postgres.ts'
import { testSecrets } from '../../tests/support/webhooks.ts'
import { cohortStore } from './cohorts.ts'
import { encryptTarget } from './endpoints.ts'
import { changedAtOnceMax, erasureStore } from './erasures.ts'
import { exportStore } from './exports.ts'
import type { ImportRecord } from './import-record.ts'
import { importStore } from './imports.ts'
import type { Postgres } from './open.ts'
import { siteStore } from './sites.ts'
import { webhookStore } from './webhooks.ts'

const now = 1_700_000_000_000

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

const settings: CohortSettings = {
  name: 'all',
  description: null,
  criteria: { type: 'and', scope: 'user', conditions: [{ property: 'url', operator: 'exists' }] },
}

function createWebhook(siteId: string): Promise<unknown> {
  const endpoint = {
    endpointId: newId('wh'),
    siteId,
    owner: 'webhook',
    channel: 'webhook',
    ...encryptTarget(testSecrets, 'webhook', 'http://127.0.0.1:9/'),
    encryptedSecret: null,
    events: ['alert'],
    active: true,
    summaryInterval: null,
    keyId: 'key_1',
    environment: 'prod',
  } as const
  return webhookStore(postgres).create(endpoint, now)
}

test.each<[table: string, create: (siteId: string) => Promise<unknown>]>([
  ['cohorts', (siteId) => cohortStore(postgres).create({ cohortId: newId('coh'), siteId, settings })],
  ['endpoints', createWebhook],
  ['alert_rules', (siteId) => addRule(postgres, { siteId })],
  ['exports', (site) => addExport(exportStore(postgres), { site }, now)],
  ['imports', (site) => addImport(importStore(postgres), { site }, now)],
])('%s: none is created while its site is being deleted, nor afterwards', async (table, create) => {
  const siteId = newId('site')
  await siteStore(postgres).create(siteId, {}, 'key_1')
  const { exportId } = await addExport(exportStore(postgres), { site: siteId }, now)
  const count = async () => {
    const { rows } = await sql`SELECT FROM ${sql.table(table)} WHERE site_id = ${siteId}`.execute(postgres.db)
    return rows.length
  }

  let deletion: Promise<unknown> | undefined
  let creation: Promise<unknown> | undefined
  await postgres.db.transaction().execute(async (transaction) => {
    await sql`SELECT FROM exports WHERE export_id = ${exportId} FOR UPDATE`.execute(transaction)
    const erasure = { erasureId: newId('era'), kind: 'site', hashes: null, before: null } as const
    deletion = erasureStore(postgres).createForSite({ ...erasure, siteId, keyId: 'key_1' }, () => now)
    await lockAwaited(postgres)
    creation = create(siteId)
    creation.catch(() => undefined)
    // The creation waits as the second transaction. Without a lock, it would end.
    await Promise.race([creation.catch(() => undefined), lockAwaited(postgres, 2)])
  })
  await deletion
  const refusal = { code: 'not_found', message: 'Site not found' }
  await expect(creation).rejects.toMatchObject(refusal)
  await expect(create(siteId)).rejects.toMatchObject(refusal)
  expect(await count()).toBe(0)

  await siteStore(postgres).create(siteId, {}, 'key_1')
  await create(siteId)
  expect(await count()).toBe(1)
})

test('a worker records its segment while the site of the import is being deleted, and neither fails', async () => {
  const siteId = newId('site')
  await siteStore(postgres).create(siteId, {}, 'key_1')
  const imports = importStore(postgres)
  const { importId } = await addImport(imports, { site: siteId }, now)
  const leased = (await imports.leases.take(now, 100)).find(({ id }) => id === importId)
  if (!leased) throw new Error('the import is not due')

  let work: Promise<unknown>[] = []
  await postgres.db.transaction().execute(async (transaction) => {
    await sql`SELECT FROM import_segments WHERE import_id = ${importId} FOR UPDATE`.execute(transaction)
    const recorded = imports.recordSegment(leased, 0, segmentDone)
    await lockAwaited(postgres)
    const erasure = { erasureId: newId('era'), kind: 'site', hashes: null, before: null } as const
    const deletion = erasureStore(postgres).createForSite({ ...erasure, siteId, keyId: 'key_1' }, () => now)
    work = [recorded, deletion]
    for (const each of work) each.catch(() => undefined)
    // The deletion waits, too.
    await lockAwaited(postgres, 2)
  })
  await Promise.all(work)
  expect(await imports.find(importId, null)).toBeUndefined()
})

test('the deletion of a site returns the files of its imports that have not ended', async () => {
  const siteId = newId('site')
  await siteStore(postgres).create(siteId, {}, 'key_1')
  const imports = importStore(postgres)
  const cancelled = await addImport(imports, { site: siteId }, now)
  await imports.cancel(cancelled.importId, null, now)
  const { importId } = await addImport(imports, { site: siteId, segments: 2 }, now)
  const leased = (await imports.leases.take(now, 100)).find(({ id }) => id === importId)
  if (!leased) throw new Error('the import is not due')
  await imports.recordSegment(leased, 0, { ...segmentDone, errorsObject: 'errors' })
  const [first, second] = await imports.segments(importId)
  const erasure = { erasureId: newId('era'), kind: 'site', hashes: null, before: null } as const
  const deleted = await erasureStore(postgres).createForSite({ ...erasure, siteId, keyId: 'key_1' }, () => now)
  expect(deleted?.files).toStrictEqual({ objects: [first?.object, 'errors', second?.object], uploads: [] })
})

test('a site may have more unfinished imports than a statement may have parameters', async () => {
  const siteId = newId('site')
  await siteStore(postgres).create(siteId, {}, 'key_1')
  await sql`
    INSERT INTO imports (import_id, site_id, environment, type, status, sha256, key_id, created_at, accepted_at)
    SELECT ${siteId} || n, ${siteId}, 'prod', 'events', 'queued', '', 'key_1', now(), now()
    FROM generate_series(1, 65536) n`.execute(postgres.db)
  const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null } as const
  const deleted = await erasureStore(postgres).createForSite({ ...erasure, keyId: 'key_1' }, () => now)
  expect(deleted).toMatchObject({ files: { objects: [] } })
})

test('an import that is accepted before its site is locked is erased with the site', async () => {
  const siteId = newId('site')
  await siteStore(postgres).create(siteId, {}, 'key_1')
  const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null, keyId: 'key_1' } as const
  let time = now
  let accepted: ImportRecord | undefined
  const slow: Postgres = {
    ...postgres,
    // The first transactions remove deliveries, which may take minutes.
    transaction: async (work) => {
      accepted ??= await addImport(importStore(postgres), { site: siteId }, (time += 60_000))
      return postgres.transaction(work)
    },
  }
  const deleted = await erasureStore(slow).createForSite(erasure, () => time)
  expect(deleted?.erasure.requestedAt).toBe(accepted?.acceptedAt)
})

test('an import that another clock has accepted later than this one shows is erased with its site', async () => {
  const siteId = newId('site')
  await siteStore(postgres).create(siteId, {}, 'key_1')
  const { acceptedAt } = await addImport(importStore(postgres), { site: siteId }, now + 250)
  const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null, keyId: 'key_1' } as const
  const deleted = await erasureStore(postgres).createForSite(erasure, () => now)
  expect(deleted?.erasure.requestedAt).toBe(acceptedAt)
})

test('a site may have more imports and exports than a statement can remove', async () => {
  const [siteId, other] = [newId('site'), newId('site')]
  await siteStore(postgres).register([siteId, other])
  for (const table of ['imports', 'exports']) {
    await refuseLargeStatements(postgres.db, table, { events: ['DELETE'], rowsMax: changedAtOnceMax })
  }
  const count = 2 * changedAtOnceMax + 1
  for (const site of [siteId, other]) {
    await sql`
      INSERT INTO imports (import_id, site_id, environment, type, status, sha256, key_id, created_at, accepted_at)
      SELECT ${site} || n, ${site}, 'prod', 'events', 'completed', '', 'key_1', now(), ${new Date(now)}
      FROM generate_series(1, ${count}) n`.execute(postgres.db)
    await sql`
      INSERT INTO exports (export_id, site_id, key_id, name, type, spec, status, object, created_at, finished_at)
      SELECT ${site} || n, ${site}, 'key_1', '', 'events', '{}', 'expired', ${site} || n, now(), ${new Date(now - dayMs)}
      FROM generate_series(1, ${count}) n`.execute(postgres.db)
  }
  const { exportId } = await addExport(exportStore(postgres), { site: siteId }, now)
  const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null, keyId: 'key_1' } as const
  const deleted = await erasureStore(postgres).createForSite(erasure, () => now)
  // The files of long ago are not removed again, within the request.
  expect(deleted?.files.objects).toHaveLength(0)
  expect(await exportStore(postgres).find(exportId, null)).toBeUndefined()
  for (const table of ['imports', 'exports']) {
    const { rows } = await sql`
      SELECT site_id, count(*)::int AS left FROM ${sql.table(table)} WHERE site_id IN (${siteId}, ${other}) GROUP BY site_id`.execute(
      postgres.db,
    )
    expect(rows).toStrictEqual([{ site_id: other, left: count }])
  }
})

test('files that an erasure has just withdrawn stay known until their site is deleted, and are returned then', async () => {
  const siteId = newId('site')
  await siteStore(postgres).create(siteId, {}, 'key_1')
  const exports = exportStore(postgres)
  const { exportId } = await addExport(exports, { site: siteId }, now)
  const leased = (await exports.leases.take(now, 1_000)).find(({ id }) => id === exportId)
  if (!leased) throw new Error('the export is not due')
  await exports.beginFile(leased, { object: 'exports/a', uploadId: 'u1' })
  await exports.complete(leased, { rows: 1, bytes: 1, etag: 'e', expiresAt: now + 7 * dayMs }, now)
  await exports.withdraw(siteId, now + 2 * dayMs)

  const files = { objects: ['exports/a'], uploads: [] }
  const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null, keyId: 'key_1' } as const
  const at = () => now + 3 * dayMs - 1
  // The first reading of the clock is before the transaction.
  const failing = jest
    .fn(at)
    .mockImplementationOnce(at)
    .mockImplementation(() => {
      throw new Error('the transaction fails')
    })
  await expect(erasureStore(postgres).createForSite(erasure, failing)).rejects.toThrow('the transaction fails')
  expect(await exports.withdrawnFiles(siteId, now + dayMs)).toStrictEqual(files)
  const deleted = await erasureStore(postgres).createForSite(erasure, at)
  expect(deleted?.files).toStrictEqual(files)
})
