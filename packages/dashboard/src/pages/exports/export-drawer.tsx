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
import { MoreMenu, Num } from '../../ui/numbers.tsx'
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
    { staleMs: 0, refetchMs: (each) => refreshMsOf(each === undefined ? [] : [each], pollMs) },
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
        actions={data === undefined ? undefined : <Actions of={data} onDo={setDoing} onOpen={onOpen} />}
      >
        <div class="stack">
          <ErrorPanel error={record.error} onRetry={record.retry} />
          {record.isLoading ? <SkeletonRows rows={6} /> : null}
          {data === undefined ? null : <Record of={data} />}
          {record.data !== undefined && data === undefined ? <UnknownRecord id={id} /> : null}
        </div>
      </Drawer>
      {doing === 'edit' && data !== undefined ? (
        <ScheduleForm of={data} zone={timezone} onClose={() => setDoing(undefined)} />
      ) : null}
      {doing === 'remove' && data !== undefined ? (
        <RemoveExport of={data} onClose={() => setDoing(undefined)} onRemoved={onClose} />
      ) : null}
    </>
  )
}

function rangeOf({ start_date: start, end_date: end }: ExportResource, zone: string): string {
  if (start !== null && end !== null) return texts.between(formatBare(start, zone), formatZoned(end, zone))
  if (start !== null) return texts.since(formatZoned(start, zone))
  return end === null ? texts.everything : texts.until(formatZoned(end, zone))
}

function Record({ of }: { of: ExportResource }) {
  const site = useSite()
  const { metric, group_by: groupBy, cohort_id: cohort, filter, scheduled } = of
  return (
    <>
      {isUnderWay(of) ? <Progress label={texts.progress} value={of.progress} max={100} /> : null}
      <div class="row">
        <h3 class="grow">
          <ExportStatus of={of} />
        </h3>
        <MoreMenu
          source={listSource(of.name, ['getExport', { params: { export_id: of.export_id } }], [of], {
            fileParts: [site.site_id, of.export_id],
            zone: site.timezone,
          })}
        />
      </div>
      {of.status === 'expired' && scheduled === null ? <p class="muted">{texts.expiredWhy}</p> : null}
      <Details
        items={[
          [texts.columns.type, texts.types[of.type]],
          metric !== null && [texts.metric, messages.metrics[metric]],
          groupBy !== null && [texts.groupBy, <bdi>{texts.units[groupBy] ?? groupBy}</bdi>],
          cohort !== null && [texts.cohort, <code>{cohort}</code>],
          [texts.columns.format, texts.formatOf(of)],
          [texts.environment, texts.environments[of.environment]],
          scheduled === null && [texts.range, rangeOf(of, site.timezone)],
          scheduled !== null && [texts.frequency, texts.frequencies[scheduled.frequency]],
          scheduled !== null && [texts.nextRun, scheduled.paused ? '–' : <At ms={scheduled.next_run} />],
          filter !== null &&
            filter.length > 0 && [
              texts.filterLabel,
              <bdi>{andList(filter.flatMap((each) => ('conditions' in each ? [] : [conditionLabel(each)])))}</bdi>,
            ],
          [texts.columns.rows, <Num kind="exact" value={of.rows} name="rows" />],
          [texts.columns.bytes, formatBytes(of.bytes)],
          [texts.columns.created, <At ms={of.created_at} />],
          of.finished_at !== null && [texts.finished, <At ms={of.finished_at} />],
          of.expires_at !== null && [texts.expires, <At ms={of.expires_at} />],
          of.error !== null && [texts.reason, <bdi>{of.error}</bdi>],
          [texts.id, <code>{of.export_id}</code>],
        ]}
      />
      {scheduled === null ? null : <Runs of={of} />}
    </>
  )
}

/** The body that makes an export again. */
function againOf(of: ExportResource): CreateExportBody {
  const given = {
    compression: of.compression,
    start_date: of.start_date,
    end_date: of.end_date,
    filter: of.filter,
    cohort_id: of.cohort_id,
    metric: of.metric,
    group_by: of.group_by,
  }
  return {
    site_id: of.site_id,
    type: of.type,
    format: of.format,
    name: of.name,
    environment: of.environment,
    csv_safe: of.csv_safe,
    ...(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) as Partial<CreateExportBody>),
  }
}

interface ActionsProps {
  of: ExportResource
  onDo: (what: 'remove' | 'edit') => void
  onOpen: (id: string) => void
}

function Actions({ of, onDo, onOpen }: ActionsProps) {
  const again = useOperationMutation('createExport', ['listExports'])
  const update = useOperationMutation('updateExport', ['listExports', 'getExport'])
  const { scheduled } = of
  const params = { export_id: of.export_id }
  const hasFile = of.status === 'completed'
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
      {scheduled !== null || isUnderWay(of) ? null : (
        <Button
          icon="refresh-cw"
          isBusy={again.isBusy}
          onClick={() => {
            again.start({ body: againOf(of) }, ({ export_id: id }) => onOpen(id))
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

function RemoveExport({ of, onClose, onRemoved }: { of: ExportResource; onClose: () => void; onRemoved: () => void }) {
  const remove = useOperationMutation('deleteExport', ['listExports'])
  return (
    <ConfirmDialog
      title={texts.removeTitle(of.name)}
      submit={texts.remove}
      isBusy={remove.isBusy}
      error={remove.error}
      onClose={onClose}
      onSubmit={async () => {
        await remove.run({ params: { export_id: of.export_id } })
        toast(texts.removed)
        onRemoved()
      }}
    >
      <p>{texts.removeText}</p>
    </ConfirmDialog>
  )
}
