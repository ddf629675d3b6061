import { describeLeaseTable } from '@sluice/leases/conformance/lease-table'
import { newId } from '@sluice/runtime/ids'
import { addExport } from '../../tests/support/export-jobs.ts'
import { addImport } from '../../tests/support/import-jobs.ts'
import { openTestPostgres } from '../../tests/support/test-postgres.ts'
import { erasureStore } from './erasures.ts'
import { exportStore } from './exports.ts'
import { importStore } from './imports.ts'
import { recurringJobLeases } from './recurring-jobs.ts'

describeLeaseTable('imports', async () => {
  const postgres = await openTestPostgres()
  const store = importStore(postgres)
  return {
    table: store.leases,
    add: async (dueAt) => (await addImport(store, {}, dueAt)).importId,
    complete: (lease, now) => store.complete(lease, now),
    cancel: (id, now) => store.cancel(id, null, now),
    status: async (id) => (await store.find(id, null))?.status,
    clear: () => postgres.db.deleteFrom('imports').execute(),
    close: () => postgres.drop(),
  }
})

describeLeaseTable('exports', async () => {
  const postgres = await openTestPostgres()
  const store = exportStore(postgres)
  return {
    table: store.leases,
    add: async (dueAt) => (await addExport(store, {}, dueAt)).exportId,
    complete: (lease, now) => store.complete(lease, { rows: 1, bytes: 2, etag: 'e', expiresAt: now + 3 }, now),
    cancel: (id) => store.delete(id, null),
    cancelled: { status: undefined, renewal: 'lost' },
    status: async (id) => (await store.find(id, null))?.status,
    clear: () => postgres.db.deleteFrom('exports').execute(),
    close: () => postgres.drop(),
  }
})

describeLeaseTable('schedules of exports', async () => {
  const postgres = await openTestPostgres()
  const store = exportStore(postgres)
  return {
    table: store.schedules,
    add: async (dueAt) => {
      const scheduled = { frequency: 'daily', nextRun: dueAt, paused: false } as const
      return (await addExport(store, { scheduled }, dueAt)).exportId
    },
    cancel: (id) => store.delete(id, null),
    cancelled: { status: undefined, renewal: 'lost' },
    status: async (id) => (await store.find(id, null))?.status,
    clear: () => postgres.db.deleteFrom('exports').execute(),
    close: () => postgres.drop(),
  }
})

describeLeaseTable('erasures', async () => {
  const postgres = await openTestPostgres()
  const store = erasureStore(postgres)
  const rowOf = (id: string) => postgres.db.selectFrom('erasures').where('erasure_id', '=', id)
  return {
    table: store.leases,
    add: async (dueAt) => {
      const erasure = {
        erasureId: newId('era'),
        siteId: newId('site'),
        kind: 'before',
        hashes: null,
        before: 1,
      } as const
      return (await store.create({ ...erasure, requestedAt: dueAt, keyId: 'key_1' })).erasureId
    },
    complete: (lease, now) => store.complete(lease, now),
    cancel: (id) => postgres.db.deleteFrom('erasures').where('erasure_id', '=', id).execute(),
    cancelled: { status: undefined, renewal: 'lost' },
    failed: { status: 'processing', dueAfterMs: 3_600_000 },
    status: async (id) => (await rowOf(id).select('status').executeTakeFirst())?.status,
    clear: () => postgres.db.deleteFrom('erasures').execute(),
    close: () => postgres.drop(),
  }
})

const recurringJobTables = [
  ['chores', 3_600_000],
  ['canary_runs', 60_000],
] as const
for (const [table, retryMs] of recurringJobTables)
  describeLeaseTable(
    table,
    async () => {
      const postgres = await openTestPostgres()
      const rowOf = (name: string) => postgres.db.selectFrom(table).where('name', '=', name)
      return {
        table: recurringJobLeases(postgres, { table, retryMs }),
        add: async (dueAt) => {
          const name = newId('job')
          await postgres.db
            .insertInto(table)
            .values({ name, status: 'queued', due_at: new Date(dueAt) })
            .execute()
          return name
        },
        cancel: (name) => postgres.db.deleteFrom(table).where('name', '=', name).execute(),
        cancelled: { status: undefined, renewal: 'lost' },
        failed: { status: 'failed', dueAfterMs: retryMs },
        status: async (name) => (await rowOf(name).select('status').executeTakeFirst())?.status,
        clear: () => postgres.db.deleteFrom(table).execute(),
        close: () => postgres.drop(),
      }
    },
    { isRecurring: true },
  )
