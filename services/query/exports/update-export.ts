import { operations } from '@sluice/api/operations'
import { mayGroup, type UpdateExportBody } from '@sluice/contracts/exports'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { toExportResource } from '@sluice/postgres/export-resource'
import type { ExportChanges } from '@sluice/postgres/export-schedules'
import type { ExportStore } from '@sluice/postgres/exports'
import { invalidField, requireFound } from '@sluice/runtime/errors'
import { requireUnchangedSite } from '../require-unchanged-site.ts'
import { requireVisibleExport } from './require-visible-export.ts'

/** PUT /api/v1/exports/:export_id: fields left out keep their value. Throws 404 for a missing or hidden export. */
export function updateExportRoute({ exports }: { exports: Pick<ExportStore, 'find' | 'update'> }): Route {
  return handle(operations.updateExport, async ({ params, body, credential, log }) => {
    const { export_id: exportId } = params
    log({ export_id: exportId })
    const found = await requireVisibleExport(exports, exportId, credential)
    requireUnchangedSite(body.site_id, found.siteId)
    if (body.scheduled && !found.scheduled) {
      throw invalidField('scheduled', 'can be changed only for an export that was created with a schedule')
    }
    if (body.scheduled?.frequency !== undefined && !mayGroup(found.spec.group_by, body.scheduled.frequency)) {
      throw invalidField('scheduled.frequency', 'must be hourly, because the export counts by minute')
    }
    const record = requireFound(await exports.update(exportId, credential.siteIds, toChanges(body)), 'Export')
    return toExportResource(record)
  })
}

function toChanges({ name, scheduled }: UpdateExportBody): ExportChanges {
  const { next_run: nextRun, ...others } = scheduled ?? {}
  const changes = { ...others, ...(nextRun === undefined ? {} : { nextRun }) }
  return {
    ...(name === undefined ? {} : { name }),
    // A schedule without changes is not written, because a worker may be making a run.
    ...(Object.keys(changes).length === 0 ? {} : { scheduled: changes }),
  }
}
