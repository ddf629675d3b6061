import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { toImportResource } from '@sluice/postgres/import-resource'
import type { ImportStore } from '@sluice/postgres/imports'
import { requireVisibleImport } from './require-visible-import.ts'

/** GET /api/v1/imports/:import_id: returns an import. Throws 404 for a missing or hidden one. */
export function getImportRoute({ imports }: { imports: Pick<ImportStore, 'find'> }): Route {
  return handle(operations.getImport, async ({ params: { import_id: importId }, credential, log }) => {
    log({ import_id: importId })
    return toImportResource(await requireVisibleImport(imports, importId, credential))
  })
}
