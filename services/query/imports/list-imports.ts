import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { toImportResource } from '@sluice/postgres/import-resource'
import type { ImportStore } from '@sluice/postgres/imports'
import { permittedImportTypes } from './permitted-types.ts'

/** GET /api/v1/imports: a site's imports, newest first. */
export function listImportsRoute({
  sites,
  imports,
}: {
  sites: ReadableSites
  imports: Pick<ImportStore, 'list'>
}): Route {
  return handle(operations.listImports, async ({ query, credential, signal, log }) => {
    const { site_id: siteId, ...page } = query
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)
    const { imports: records, total } = await imports.list(siteId, permittedImportTypes(credential.scopes), page)
    return { imports: records.map(toImportResource), total, ...page }
  })
}
