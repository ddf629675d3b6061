import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { toExportResource } from '@sluice/postgres/export-resource'
import type { ExportStore } from '@sluice/postgres/exports'
import { requireVisibleExport } from './require-visible-export.ts'

/** GET /api/v1/exports/:export_id: returns an export. Throws 404 for a missing or hidden one. */
export function getExportRoute({ exports }: { exports: Pick<ExportStore, 'find'> }): Route {
  return handle(operations.getExport, async ({ params: { export_id: exportId }, credential, log }) => {
    log({ export_id: exportId })
    return toExportResource(await requireVisibleExport(exports, exportId, credential))
  })
}
