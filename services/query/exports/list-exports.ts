import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { toExportResource } from '@sluice/postgres/export-resource'
import type { ExportStore } from '@sluice/postgres/exports'
import { permittedExportTypes } from './permitted-types.ts'

/** GET /api/v1/exports: a site's exports and schedules, newest first. */
export function listExportsRoute({
  sites,
  exports,
}: {
  sites: ReadableSites
  exports: Pick<ExportStore, 'list'>
}): Route {
  return handle(operations.listExports, async ({ query, credential, signal, log }) => {
    const { site_id: siteId, ...page } = query
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)
    const { exports: records, total } = await exports.list(siteId, permittedExportTypes(credential.scopes), page)
    return { exports: records.map(toExportResource), total, ...page }
  })
}
