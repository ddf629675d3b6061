import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { CohortResource } from '@sluice/contracts/cohorts'
import type { CohortAnalysis } from '@sluice/contracts/retention'
import { useApi, useFromAnswer, useOperationMutation } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { Curve } from '../../charts/curve.tsx'
import { fileNameOf } from '../../format/csv.ts'
import { formatPercent } from '../../format/numbers.ts'
import { useView, useViewQueries } from '../../state/hooks.ts'
import { useMay } from '../../state/session.tsx'
import { announce, toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { Dialog, Drawer } from '../../ui/dialog.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, SkeletonRows, Status } from '../../ui/states.tsx'
import { DataTable } from '../../ui/table.tsx'
import { criteriaSentence } from './criteria.ts'
import { texts } from './messages.ts'
import { sizeRefreshMs } from './size.tsx'

const weeks = 12

export interface DetailProps {
  cohort: CohortResource
  onEdit: () => void
  onClose: () => void
}

/** A cohort: who it is, how many, and how they came back. */
export function Detail({ cohort, onEdit, onClose }: DetailProps) {
  const { siteId, hrefOf } = useView()
  const { environment } = useViewQueries()
  const mayWrite = useMay('cohorts:write')
  const [isDeleting, setDeleting] = useState(false)
  const [isExported, setExported] = useState(false)
  const query = { site_id: siteId, cohort_id: cohort.cohort_id, weeks, environment }
  const analysis = useApi(
    'cohortAnalysis',
    { query },
    { refetchMs: (answer) => (answer === undefined ? false : sizeRefreshMs) },
  )
  const create = useOperationMutation('createExport', ['listExports'])
  const { data } = analysis
  const source = useFromAnswer(analysis, ({ cohort_name, size, retention_by_week }) => ({
    label: cohort.name,
    request: requestOf('cohortAnalysis', { query }),
    rows: () =>
      retention_by_week.map(({ week, retention_rate, cohort_size, returning_users, complete }) => ({
        cohort_name,
        size,
        week,
        retention_rate,
        cohort_size,
        returning_users,
        complete,
      })),
    fileName: fileNameOf([siteId, 'cohort', cohort.name, `${weeks}-weeks`], 'csv'),
  }))
  const retentionHref = hrefOf({}, 'retention')
  const exportUsers = () => {
    const body = {
      site_id: siteId,
      type: 'cohort' as const,
      format: 'csv' as const,
      cohort_id: cohort.cohort_id,
      name: cohort.name,
      environment,
    }
    create.start({ body }, () => {
      setExported(true)
      announce(texts.exported)
    })
  }
  return (
    <Drawer title={cohort.name} onClose={onClose}>
      <div class="stack">
        {cohort.description === null || cohort.description === '' ? null : <p>{<bdi>{cohort.description}</bdi>}</p>}
        <p class="muted">
          {texts.usersWho} <bdi>{criteriaSentence(cohort.criteria)}</bdi>
        </p>
        <div class="row">
          <a
            class="button"
            href={`${retentionHref}${retentionHref.includes('?') ? '&' : '?'}cohort=${encodeURIComponent(cohort.cohort_id)}`}
          >
            {texts.inRetention}
          </a>
          <Button isBusy={create.isBusy} onClick={exportUsers}>
            {texts.export}
          </Button>
          {mayWrite ? (
            <>
              <Button onClick={onEdit}>{texts.edit}</Button>
              <Button kind="danger" onClick={() => setDeleting(true)}>
                {texts.remove}
              </Button>
            </>
          ) : null}
        </div>
        {mayWrite ? null : <p class="muted small">{texts.needsWrite}</p>}
        <ErrorPanel error={create.error} isChange onRetry={create.startAgain} />
        {isExported ? (
          <p class="notice">
            <span>
              {texts.exported} <a href={hrefOf({}, 'exports')}>{texts.toExports}</a>
            </span>
          </p>
        ) : null}
        <ErrorPanel error={analysis.error} onRetry={analysis.retry} />
        {analysis.isLoading ? <SkeletonRows rows={10} /> : null}
        {data === undefined ? null : <Weeks cohort={cohort} analysis={data} menu={<MoreMenu source={source} />} />}
      </div>
      {isDeleting ? <DeleteDialog cohort={cohort} onClose={() => setDeleting(false)} onDeleted={onClose} /> : null}
    </Drawer>
  )
}

function Weeks({
  cohort,
  analysis,
  menu,
}: {
  cohort: CohortResource
  analysis: CohortAnalysis
  menu: ComponentChildren
}) {
  const { size, retention_by_week } = analysis
  const counted = retention_by_week.filter(({ cohort_size }) => cohort_size > 0)
  const points = counted
    .filter(({ week }) => week > 0)
    .map(({ week, retention_rate, complete }) => ({
      label: texts.weekNumber(week),
      value: retention_rate,
      isComplete: complete,
    }))
  const latest = points.findLast(({ isComplete }) => isComplete)
  return (
    <section class="stack-small cohort-weeks" aria-label={texts.weeks}>
      <header class="section-head">
        <p class="grow">
          <span class="big-number">
            <Num value={size} name={cohort.name} />
          </span>{' '}
          {texts.users(size)}
        </p>
        {menu}
      </header>
      {size === 0 ? <p class="muted">{texts.nobody}</p> : null}
      {points.length === 0 ? null : (
        <>
          <h3>{texts.weeks}</h3>
          <p class="muted small">{texts.weeksWhy}</p>
          <Curve
            caption={
              latest === undefined
                ? texts.noCurve(cohort.name)
                : texts.curve(cohort.name, formatPercent(latest.value), latest.label)
            }
            lines={[{ name: cohort.name, kind: 'main', points }]}
          />
        </>
      )}
      {counted.length === 0 ? null : (
        <DataTable
          caption={texts.weeks}
          columns={[
            {
              id: 'week',
              header: texts.week,
              cell: ({ week, complete }) => (
                <span class="row">
                  {week}
                  {complete ? null : <Status kind="busy">{texts.inProgress}</Status>}
                </span>
              ),
            },
            { id: 'counted', header: texts.counted, align: 'end', cell: (row) => <Num value={row.cohort_size} /> },
            {
              id: 'returned',
              header: texts.returned,
              align: 'end',
              cell: (row) => <Num value={row.returning_users} />,
            },
            {
              id: 'rate',
              header: texts.rate,
              align: 'end',
              cell: (row) => <Num value={row.retention_rate} kind="percent" />,
            },
          ]}
          rows={counted}
          rowKey={({ week }) => String(week)}
        />
      )}
    </section>
  )
}

function DeleteDialog({
  cohort,
  onClose,
  onDeleted,
}: {
  cohort: CohortResource
  onClose: () => void
  onDeleted: () => void
}) {
  const remove = useOperationMutation('deleteCohort', ['listCohorts'])
  const run = () => {
    remove.start({ params: { cohort_id: cohort.cohort_id } }, () => {
      toast(texts.removed(cohort.name))
      onDeleted()
    })
  }
  return (
    <Dialog
      title={texts.removeTitle(cohort.name)}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="danger" isBusy={remove.isBusy} onClick={run}>
            {texts.removeButton}
          </Button>
        </>
      }
    >
      <div class="stack">
        <p>{texts.removeWhy}</p>
        <ErrorPanel error={remove.error} isChange onRetry={run} />
      </div>
    </Dialog>
  )
}
