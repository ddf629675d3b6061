import type { ExportResource, ExportRun } from '@sluice/contracts/exports'
import { useApi } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { formatBare, formatZoned } from '../../format/dates.ts'
import { formatBytes } from '../../format/numbers.ts'
import { useSite } from '../../state/session.tsx'
import { Icon } from '../../ui/icon.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, SkeletonRows } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { ExportStatus } from './export-status.tsx'
import { texts } from './messages.ts'
import { waitingMs } from './refresh.ts'

const limit = 50
const pollMs = 2_000

const isRunning = ({ status }: ExportRun) => status === 'queued' || status === 'processing'

/** The latest runs of a schedule, with their files. */
export function Runs({ exportRecord }: { exportRecord: ExportResource }) {
  const site = useSite()
  const input = { params: { export_id: exportRecord.export_id }, query: { limit } }
  const runs = useApi('listExportRuns', input, {
    staleMs: 0,
    refetchMs: (data) => (data?.runs.some(isRunning) === true ? pollMs : waitingMs),
  })
  const columns: Column<ExportRun>[] = [
    {
      id: 'end_date',
      header: texts.covers,
      cell: (run) =>
        run.start_date === null
          ? texts.until(formatZoned(run.end_date, site.timezone))
          : texts.between(formatBare(run.start_date, site.timezone), formatZoned(run.end_date, site.timezone)),
    },
    {
      id: 'status',
      header: texts.columns.status,
      cell: (run) => <ExportStatus exportRecord={{ status: run.status, scheduled: null }} />,
    },
    {
      id: 'rows',
      header: texts.columns.rows,
      align: 'end',
      cell: (run) => <Num kind="exact" value={run.rows} name={`${run.export_id} rows`} />,
    },
    {
      id: 'download',
      header: texts.download,
      isHeaderHidden: true,
      align: 'end',
      cell: (run) =>
        run.status === 'completed' ? (
          <a
            class="button quiet icon-only"
            href={requestOf('downloadExport', { params: { export_id: run.export_id } }).path}
            download
            title={`${texts.downloadRun(run.export_id)}, ${formatBytes(run.bytes)}`}
            aria-label={texts.downloadRun(run.export_id)}
          >
            <Icon name="download" />
          </a>
        ) : null,
    },
  ]
  return (
    <section class="stack-small" aria-label={texts.runs}>
      <div class="row">
        <h3 class="grow">{texts.runs}</h3>
        {runs.data === undefined ? null : (
          <MoreMenu
            source={listSource(texts.runs, ['listExportRuns', input], runs.data.runs, {
              fileParts: [exportRecord.export_id, 'runs'],
              zone: site.timezone,
            })}
          />
        )}
      </div>
      <ErrorPanel error={runs.error} onRetry={runs.retry} />
      {runs.isLoading ? <SkeletonRows rows={3} /> : null}
      {runs.data === undefined ? null : (
        <DataTable
          caption={texts.runs}
          columns={columns}
          rows={runs.data.runs}
          rowKey={(run) => run.export_id}
          empty={<p class="muted">{texts.noRuns}</p>}
        />
      )}
    </section>
  )
}
