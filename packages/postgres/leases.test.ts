import { describeLeaseTable } from '@sluice/leases/conformance/lease-table'
import { addImport } from '../../tests/support/import-jobs.ts'
import { openTestPostgres } from '../../tests/support/test-postgres.ts'
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
