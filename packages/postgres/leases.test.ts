import { describeLeaseTable } from '@sluice/leases/conformance/lease-table'
import { addExport } from '../../tests/support/export-jobs.ts'
import { addImport } from '../../tests/support/import-jobs.ts'
import { openTestPostgres } from '../../tests/support/test-postgres.ts'
import { exportStore } from './exports.ts'
import { importStore } from './imports.ts'

describeLeaseTable('imports', async () => {
  const postgres = await openTestPostgres()
  const store = importStore(postgres)
  return {
    table: store.leases,
    add: async (dueAt) => (await addImport(store, {}, dueAt)).importId,
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
