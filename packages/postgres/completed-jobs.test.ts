import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { LeaseLostError } from '@sluice/leases/lease-table'
import { checkDelivery } from '../../tests/support/check-delivery.ts'
import { addExport } from '../../tests/support/export-jobs.ts'
import { addImport } from '../../tests/support/import-jobs.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { addWebhook } from '../../tests/support/webhooks.ts'
import { toExportResource } from './export-resource.ts'
import { exportStore } from './exports.ts'
import { toImportResource } from './import-resource.ts'
import { importStore } from './imports.ts'

const now = 1_700_000_000_000
let postgres: TestPostgres
let webhookId: string

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  for (const table of ['endpoints', 'imports', 'exports'] as const) await postgres.db.deleteFrom(table).execute()
  webhookId = await addWebhook(postgres, { siteId: 'shop' })
  await addWebhook(postgres, { siteId: 'blog', url: 'https://blog.example/' })
})

async function told(): Promise<unknown[]> {
  const rows = await postgres.db.selectFrom('deliveries').selectAll().execute()
  return rows.map(({ endpoint_id, source, body }) => ({
    endpoint_id,
    source,
    body: JSON.parse(body.toString('utf8')) as unknown,
  }))
}

test('a completed import is told as its record shows it, in the transaction that completes it', async () => {
  const imports = importStore(postgres)
  const { importId } = await addImport(imports, { site: 'shop' }, now)
  const [lease] = await imports.leases.take(now, 1)
  if (!lease) throw new Error('nothing is due')
  await expect(imports.complete({ ...lease, lease: lease.lease + 1 }, now)).rejects.toThrow(LeaseLostError)
  expect(await told()).toStrictEqual([])
  await imports.complete(lease, now + 5)
  const record = await imports.find(importId, null)
  const data = record && toImportResource(record)
  expect(data).toMatchObject({ status: 'completed', finished_at: now + 5 })
  const body = { event_type: 'import.completed', timestamp: now + 5, site_id: 'shop', data }
  checkDelivery(body)
  expect(await told()).toStrictEqual([{ endpoint_id: webhookId, source: `import:${importId}`, body }])
})

test('a completed export is told, once, and a failed one is not', async () => {
  const exports = exportStore(postgres)
  const { exportId } = await addExport(exports, { site: 'shop' }, now)
  const [lease] = await exports.leases.take(now, 1)
  if (!lease) throw new Error('nothing is due')
  await exports.leases.fail(lease, 'no', now)
  expect(await told()).toStrictEqual([])
  const file = { rows: 1, bytes: 2, etag: 'e', expiresAt: now + 9 }
  // The acknowledgement of the first one is lost.
  for (const at of [now + 5, now + 6]) await exports.complete(lease, file, at)
  const record = await exports.find(exportId, null)
  if (!record) throw new Error('no such export')
  const data = { ...toExportResource(record), finished_at: now + 5 }
  const body = { event_type: 'export.completed', timestamp: now + 5, site_id: 'shop', data: { ...data, error: 'no' } }
  checkDelivery(body)
  expect(await told()).toStrictEqual([{ endpoint_id: webhookId, source: `export:${exportId}`, body }])
})

test('a producer does not wait for a worker that takes', async () => {
  const imports = importStore(postgres)
  await addImport(imports, { site: 'shop' }, now)
  const [lease] = await imports.leases.take(now, 1)
  if (!lease) throw new Error('nothing is due')
  // A worker that takes deliveries locks the endpoint like this.
  await postgres.db.transaction().execute(async (transaction) => {
    await sql`SELECT * FROM endpoints FOR NO KEY UPDATE`.execute(transaction)
    await imports.complete(lease, now)
  })
  expect(await told()).toHaveLength(1)
})
