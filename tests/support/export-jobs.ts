import type { ExportSpec } from '@sluice/contracts/exports'
import type { ExportRecord, NewExport } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import { newId } from '@sluice/runtime/ids'

/** Stores an export that workers may take from `at` on. */
export function addExport(
  store: Pick<ExportStore, 'create'>,
  {
    site = newId('site'),
    spec,
    ...parts
  }: Partial<Omit<NewExport, 'spec'>> & { site?: string; spec?: Partial<ExportSpec> },
  at: number,
): Promise<ExportRecord> {
  return store.create(
    {
      exportId: newId('exp'),
      siteId: site,
      keyId: 'key_1',
      name: 'all events',
      spec: { type: 'events', format: 'csv', environment: 'prod', csv_safe: true, ...spec },
      ...parts,
    },
    at,
  )
}
