import { useEffect, useState } from 'preact/hooks'
import type { CreateExportBody, ExportResource } from '@sluice/contracts/exports'
import { useApi, useInvalidate, useOperationMutation } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { formatBare, formatZoned } from '../../format/dates.ts'
import { andList } from '../../format/names.ts'
import { formatBytes } from '../../format/numbers.ts'
import { conditionLabel } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { UnknownRecord } from '../../page-components/unknown-record.tsx'
import { useSpokenEnd } from '../../page-components/use-spoken-end.ts'
import { useSite } from '../../state/session.tsx'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { Details } from '../../ui/details.tsx'
import { Drawer } from '../../ui/dialog.tsx'
import { ConfirmDialog } from '../../ui/form-dialog.tsx'
import { Icon } from '../../ui/icon.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, Progress, SkeletonRows } from '../../ui/states.tsx'
import { At } from '../../ui/time.tsx'
import { ExportStatus, isUnderWay } from './export-status.tsx'
import { texts } from './messages.ts'
import { refreshMsOf } from './refresh.ts'
import { Runs } from './runs.tsx'
import { ScheduleForm } from './schedule-form.tsx'

const pollMs = 1_000

interface ExportDrawerProps {
  id: string
  onClose: () => void
  /** Opens another export: the one that was made again. */
  onOpen: (id: string) => void
}

/** An export: how far it is, its file, its schedule and runs. */
export function ExportDrawer({ id, onClose, onOpen }: ExportDrawerProps) {
  const params = { export_id: id }
  const invalidate = useInvalidate()
  const { site_id: siteId, timezone } = useSite()
  const record = useApi(
    'getExport',
    { params },
    { staleMs: 0, refetchMs: (each) => refreshMsOf(each && [each], pollMs) },
  )
  const data = record.data?.site_id === siteId ? record.data : undefined
  const [doing, setDoing] = useState<'remove' | 'edit'>()
  const hasEnded = data !== undefined && !isUnderWay(data)
  // A schedule that waits for its first run has not ended.
  const isOpen = data && (data.status === 'queued' || data.status === 'processing')
  useSpokenEnd(isOpen, data === undefined ? '' : texts.statuses[data.status])
  useEffect(() => {
    if (hasEnded) void invalidate('listExports', 'listExportRuns')
  }, [hasEnded])
  return (
    <>
      <Drawer
        title={data?.name ?? messages.nav.exports}
        onClose={onClose}
        actions={data === undefined ? undefined : <Actions exportRecord={data} onDo={setDoing} onOpen={onOpen} />}
      >
        <div class="stack">
          <ErrorPanel error={record.error} onRetry={record.retry} />
          {record.isLoading ? <SkeletonRows rows={6} /> : null}
          {data === undefined ? null : <Record exportRecord={data} />}
          {record.data !== undefined && data === undefined ? <UnknownRecord id={id} /> : null}
        </div>
      </Drawer>
      {doing === 'edit' && data !== undefined ? (
        <ScheduleForm exportRecord={data} zone={timezone} onClose={() => setDoing(undefined)} />
      ) : null}
      {doing === 'remove' && data !== undefined ? (
        <RemoveExport exportRecord={data} onClose={() => setDoing(undefined)} onRemoved={onClose} />
      ) : null}
    </>
  )
}

function rangeOf({ start_date: start, end_date: end }: ExportResource, zone: string): string {
  if (start !== null && end !== null) return texts.between(formatBare(start, zone), formatZoned(end, zone))
  if (start !== null) return texts.since(formatZoned(start, zone))
  return end === null ? texts.everything : texts.until(formatZoned(end, zone))
}

function Record({ exportRecord }: { exportRecord: ExportResource }) {
  const site = useSite()
  const { metric, group_by: groupBy, cohort_id: cohort, filter, scheduled } = exportRecord
  return (
    <>
      {isUnderWay(exportRecord) ? <Progress label={texts.progress} value={exportRecord.progress} max={100} /> : null}
      <div class="row">
        <h3 class="grow">
          <ExportStatus exportRecord={exportRecord} />
        </h3>
        <MoreMenu
          source={listSource(
            exportRecord.name,
            ['getExport', { params: { export_id: exportRecord.export_id } }],
            [exportRecord],
            {
              fileParts: [site.site_id, exportRecord.export_id],
              zone: site.timezone,
            },
          )}
        />
      </div>
      {exportRecord.status === 'expired' && scheduled === null ? <p class="muted">{texts.expiredWhy}</p> : null}
      <Details
        items={[
          [texts.columns.type, texts.types[exportRecord.type]],
          metric !== null && [texts.metric, messages.metrics[metric]],
          groupBy !== null && [texts.groupBy, <bdi>{texts.units[groupBy] ?? groupBy}</bdi>],
          cohort !== null && [texts.cohort, <code>{cohort}</code>],
          [texts.columns.format, texts.formatOf(exportRecord)],
          [texts.environment, texts.environments[exportRecord.environment]],
          scheduled === null && [texts.range, rangeOf(exportRecord, site.timezone)],
          scheduled !== null && [texts.frequency, texts.frequencies[scheduled.frequency]],
          scheduled !== null && [texts.nextRun, scheduled.paused ? '–' : <At ms={scheduled.next_run} />],
          filter !== null &&
            filter.length > 0 && [
              texts.filterLabel,
              <bdi>{andList(filter.flatMap((each) => ('conditions' in each ? [] : [conditionLabel(each)])))}</bdi>,
            ],
          [texts.columns.rows, <Num kind="exact" value={exportRecord.rows} name="rows" />],
          [texts.columns.bytes, formatBytes(exportRecord.bytes)],
          [texts.columns.created, <At ms={exportRecord.created_at} />],
          exportRecord.finished_at !== null && [texts.finished, <At ms={exportRecord.finished_at} />],
          exportRecord.expires_at !== null && [texts.expires, <At ms={exportRecord.expires_at} />],
          exportRecord.error !== null && [texts.reason, <bdi>{exportRecord.error}</bdi>],
          [texts.id, <code>{exportRecord.export_id}</code>],
        ]}
      />
      {scheduled === null ? null : <Runs exportRecord={exportRecord} />}
    </>
  )
}

/** The body that makes an export again. */
function againOf(exportRecord: ExportResource): CreateExportBody {
  const given = {
    compression: exportRecord.compression,
    start_date: exportRecord.start_date,
    end_date: exportRecord.end_date,
    filter: exportRecord.filter,
    cohort_id: exportRecord.cohort_id,
    metric: exportRecord.metric,
    group_by: exportRecord.group_by,
  }
  return {
    site_id: exportRecord.site_id,
    type: exportRecord.type,
    format: exportRecord.format,
    name: exportRecord.name,
    environment: exportRecord.environment,
    csv_safe: exportRecord.csv_safe,
    ...(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) as Partial<CreateExportBody>),
  }
}

interface ActionsProps {
  exportRecord: ExportResource
  onDo: (what: 'remove' | 'edit') => void
  onOpen: (id: string) => void
}

function Actions({ exportRecord, onDo, onOpen }: ActionsProps) {
  const again = useOperationMutation('createExport', ['listExports'])
  const update = useOperationMutation('updateExport', ['listExports', 'getExport'])
  const { scheduled } = exportRecord
  const params = { export_id: exportRecord.export_id }
  const hasFile = exportRecord.status === 'completed'
  return (
    <>
      <ErrorPanel error={again.error} />
      <ErrorPanel error={update.error} />
      <Button kind="quiet" icon="trash" onClick={() => onDo('remove')}>
        {texts.remove}
      </Button>
      {scheduled === null ? null : (
        <>
          <Button
            icon={scheduled.paused ? 'play' : 'pause'}
            isBusy={update.isBusy}
            onClick={() => {
              update.start({ params, body: { scheduled: { paused: !scheduled.paused } } })
            }}
          >
            {scheduled.paused ? texts.resume : texts.pause}
          </Button>
          <Button onClick={() => onDo('edit')}>{texts.edit}</Button>
        </>
      )}
      {scheduled !== null || isUnderWay(exportRecord) ? null : (
        <Button
          icon="refresh-cw"
          isBusy={again.isBusy}
          onClick={() => {
            again.start({ body: againOf(exportRecord) }, ({ export_id: id }) => onOpen(id))
          }}
        >
          {texts.runAgain}
        </Button>
      )}
      {hasFile ? (
        <a class="button primary" href={requestOf('downloadExport', { params }).path} download>
          <Icon name="download" />
          {texts.download}
        </a>
      ) : null}
    </>
  )
}

function RemoveExport({
  exportRecord,
  onClose,
  onRemoved,
}: {
  exportRecord: ExportResource
  onClose: () => void
  onRemoved: () => void
}) {
  const remove = useOperationMutation('deleteExport', ['listExports'])
  return (
    <ConfirmDialog
      title={texts.removeTitle(exportRecord.name)}
      submit={texts.remove}
      isBusy={remove.isBusy}
      error={remove.error}
      onClose={onClose}
      onSubmit={async () => {
        await remove.run({ params: { export_id: exportRecord.export_id } })
        toast(texts.removed)
        onRemoved()
      }}
    >
      <p>{texts.removeText}</p>
    </ConfirmDialog>
  )
}
