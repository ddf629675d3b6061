import type { Credential } from '@sluice/access/credential'
import type { ImportRecord } from '@sluice/postgres/import-record'
import type { ImportStore } from '@sluice/postgres/imports'
import { notFound } from '@sluice/runtime/errors'
import { permittedImportTypes } from './permitted-types.ts'

/** Returns an import that the key may see. Throws 404 for a missing one, one of another site, or one of users. */
export async function requireVisibleImport(
  imports: Pick<ImportStore, 'find'>,
  importId: string,
  { siteIds, scopes }: Pick<Credential, 'siteIds' | 'scopes'>,
): Promise<ImportRecord> {
  const record = await imports.find(importId, siteIds)
  if (!record || !permittedImportTypes(scopes).includes(record.type)) throw notFound('Import')
  return record
}
