import type { Credential } from '@sluice/access/credential'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import { notFound } from '@sluice/runtime/errors'
import { permittedExportTypes } from './permitted-types.ts'

/**
 * Returns an export that the key may see. Throws 404 for a missing one, one of another site, or one of another type.
 */
export async function requireVisibleExport(
  exports: Pick<ExportStore, 'find'>,
  exportId: string,
  { siteIds, scopes }: Pick<Credential, 'siteIds' | 'scopes'>,
): Promise<ExportRecord> {
  const record = await exports.find(exportId, siteIds)
  if (!record || !permittedExportTypes(scopes).includes(record.spec.type)) throw notFound('Export')
  return record
}
