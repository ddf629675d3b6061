import { operations } from '@sluice/api/operations'
import type { ExportRun } from '@sluice/contracts/exports'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import { requireVisibleExport } from './require-visible-export.ts'

/**
 * GET /api/v1/exports/:export_id/runs: the runs of a schedule, newest first; an export without a schedule has none.
 * Throws 404 for a missing or hidden export.
 */
export function listExportRunsRoute({ exports }: { exports: Pick<ExportStore, 'find' | 'runs'> }): Route {
  return handle(operations.listExportRuns, async ({ params, query, credential, log }) => {
    const { export_id: exportId } = params
    log({ export_id: exportId })
    await requireVisibleExport(exports, exportId, credential)
    const { runs, total } = await exports.runs(exportId, query)
    return { runs: runs.map(toExportRun), total, ...query }
  })
}

function toExportRun(run: ExportRecord): ExportRun {
  const { spec, receivedFrom, receivedUntil, createdAt } = run
  const range =
    spec.type === 'stats' && spec.start_date !== undefined && spec.end_date !== undefined
      ? { start_date: spec.start_date, end_date: spec.end_date }
      : { start_date: receivedFrom, end_date: receivedUntil ?? createdAt }
  return { export_id: run.exportId, status: run.status, ...range, rows: run.rows, bytes: run.bytes }
}
