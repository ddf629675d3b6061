import { useState } from 'preact/hooks'
import type { RetentionMatrix, RetentionRow } from '@sluice/contracts/retention'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { Curve, type CurveLine } from '../../charts/curve.tsx'
import { fileNameOf } from '../../format/csv.ts'
import { formatDate } from '../../format/dates.ts'
import { messages } from '../../messages/en.ts'
import { AddressProblems } from '../../page-components/address-problems.tsx'
import { UnusedFilters } from '../../page-components/unused-filters.tsx'
import { useMenuKey } from '../../page-components/use-menu-key.ts'
import { useView, useViewQueries } from '../../state/hooks.ts'
import { useSite, useSiteZone } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { EmptyState, ErrorPanel, PageTitle, SkeletonRows } from '../../ui/states.tsx'
import { matrixRows } from './matrix.ts'
import { texts } from './messages.ts'
import { type RetentionSettings, Settings, useSettings } from './settings.tsx'
import { MatrixTable } from './table.tsx'

const refreshMs = 60_000

/** The users who return, week by week. */
export default function Page() {
  const { siteId, zone } = useView()
  const { environment } = useViewQueries()
  const siteZone = useSiteZone()
  const settings = useSettings()
  useMenuKey()
  const { weeks, mode, actor, returnEvent, cohortId } = settings
  // Without a zone in the address, the weeks are those of the site.
  const timezone = zone ?? siteZone
  const query = {
    site_id: siteId,
    weeks,
    mode,
    of: actor,
    environment,
    ...(timezone === undefined ? {} : { timezone }),
    ...(returnEvent === undefined ? {} : { return_event: returnEvent }),
    ...(cohortId === undefined ? {} : { cohort_id: cohortId }),
  }
  const retention = useApi('retention', { query }, { refetchMs: refreshMs })
  const { data } = retention
  const source = useFromAnswer(retention, (answered) => ({
    label: messages.nav.retention,
    request: requestOf('retention', { query }),
    rows: () => matrixRows(answered),
    fileName: fileNameOf([siteId, 'retention', `${weeks}-weeks`, formatDate(Date.now(), answered.timezone)], 'csv'),
  }))
  return (
    <>
      <PageTitle
        title={messages.nav.retention}
        sentence={texts.sentence}
        actions={source === undefined ? undefined : <MoreMenu source={source} />}
      />
      <div class="stack">
        <UnusedFilters why={texts.chips} />
        <AddressProblems problems={settings.problems} />
        <Settings settings={settings} />
        <ErrorPanel error={retention.error} onRetry={retention.retry} />
        {retention.isLoading ? <SkeletonRows rows={weeks + 6} /> : null}
        {data === undefined || (retention.error !== undefined && retention.isPlaceholderData) ? null : (
          <div class={retention.isPlaceholderData ? 'old refreshing' : undefined}>
            <Matrix matrix={data} settings={settings} />
          </div>
        )}
      </div>
    </>
  )
}

function Matrix({ matrix, settings }: { matrix: RetentionMatrix; settings: RetentionSettings }) {
  const [hovered, setHovered] = useState<number>()
  const [pinned, setPinned] = useState<number>()
  const { retention_days: keptDays } = useSite()
  const isWeek0Counted = settings.returnEvent !== undefined
  const { average, cohorts, timezone } = matrix
  if (cohorts.every(({ size }) => size === 0)) {
    const isCohort = settings.cohortId !== undefined
    return (
      <EmptyState
        title={texts.none[settings.actor]}
        why={isCohort ? texts.noneInCohort : texts.noneWhy[settings.actor]}
        action={
          isCohort ? (
            <Button onClick={() => settings.set('cohort', undefined)}>{texts.allUsersButton}</Button>
          ) : settings.actor === 'user' ? (
            <Button onClick={() => settings.set('of', 'visitor')}>{texts.countVisitors}</Button>
          ) : undefined
        }
      />
    )
  }
  const shown = hovered ?? pinned
  const chosen = cohorts.find(({ week_start }) => week_start === shown)
  const pointsOf = (rows: readonly (RetentionRow & { complete?: boolean })[]) =>
    rows
      .filter(({ week, cohort_size }) => (week > 0 || isWeek0Counted) && cohort_size > 0)
      .map(({ week, retention_rate, complete = true }) => ({
        label: texts.week(week),
        value: retention_rate,
        isComplete: complete,
      }))
  const lines: CurveLine[] = [{ name: texts.average, kind: 'compare', points: pointsOf(average) }]
  if (chosen !== undefined && chosen.size > 0) {
    const name = texts.weekOf(formatDate(chosen.week_start, timezone))
    lines.push({ name, kind: 'main', points: pointsOf(chosen.retention_by_week) })
  }
  const [main] = lines.slice(-1)
  const latest = main?.points.findLast(({ isComplete }) => isComplete)
  const name = main?.name ?? ''
  return (
    <div class="stack">
      {keptDays !== null ? <p class="notice">{texts.cutOff(keptDays, settings.actor)}</p> : null}
      <Curve
        caption={latest === undefined ? texts.noCurve(name) : texts.curve(name, latest.label, latest.value)}
        lines={lines}
      />
      <MatrixTable
        matrix={matrix}
        actor={settings.actor}
        isWeek0Counted={isWeek0Counted}
        shown={shown}
        pinned={pinned}
        onShow={setHovered}
        onPin={(weekStart) => setPinned(pinned === weekStart ? undefined : weekStart)}
      />
      <p class="legend-line label">
        <span class="swatch in-progress" aria-hidden="true" />
        {texts.legend(timezone)}
      </p>
    </div>
  )
}
