import { useEffect, useRef } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { useApi } from '../../api/hooks.ts'
import { batchRefreshMs } from '../../api/range-refresh.ts'
import type { StatsQuery } from '../../api/wire.ts'
import { lagMs } from '../../app/freshness.tsx'
import { useShortcut } from '../../app/shortcuts.tsx'
import { filterSentence } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { useView, useViewQueries, type ViewQueries, type ViewState } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { type HeadlineMetric, headlineMetrics } from '../../state/view.ts'
import { Button } from '../../ui/button.tsx'
import { ErrorPanel, PageTitle } from '../../ui/states.tsx'
import { type Batch, BatchError, errorOf } from './batch-error.tsx'
import { ChartPanel } from './chart-panel.tsx'
import { CountriesPanel } from './countries-panel.tsx'
import { EmptyRange } from './empty-range.tsx'
import { type Headline, Headlines } from './headline.tsx'
import { texts } from './messages.ts'
import { Panel } from './panel.tsx'
import { PropertiesPanel } from './properties-panel.tsx'
import { resultOf } from './queries.ts'
import { Share } from './share.tsx'

const counts = ['visitors', 'unique_sessions', 'event_count'] as const satisfies readonly HeadlineMetric[]
const ofSessions = [
  'bounce_rate',
  'avg_session_duration',
  'conversion_rate',
] as const satisfies readonly HeadlineMetric[]
const panelDimensions = ['path', 'referrer_host', 'country', 'device_type', 'event_type'] as const
/** Answers of the range may be this far behind those of the last hour before a note says so, ms. */
const oldRowsMs = 5 * 60_000

/** The numbers of a range, their comparison, and the breakdowns by page, referrer, country and others. */
export default function Overview() {
  const { metric, filters, range, compare, exact, setView, siteId, hrefOf } = useView()
  const site = useSite()
  const viewQueries = useViewQueries()
  const sentence = filterSentence({
    subject: texts.subjectOf(metric, site.conversion_event),
    filters,
    range,
    compare,
    compared: viewQueries.compared,
    zone: viewQueries.zone,
  })
  useEffect(() => {
    document.title = `${sentence} · ${site.name || siteId} · Sluice`
  }, [sentence, siteId, site.name])
  usePanelShortcuts(hrefOf)

  // The numbers come first, then the chart, then what they are compared with: a key's queries are answered in turn.
  const countsBatch = useBatch(counts.map((each) => viewQueries.statsQuery(each)))
  const wereCountsSettled = useRef(false)
  // While a failed batch is refetched, what is below stays.
  wereCountsSettled.current ||= countsBatch.data !== undefined || countsBatch.error !== undefined
  const areCountsSettled = wereCountsSettled.current
  const comparedCountsBatch = useBatch(areCountsSettled ? comparedQueries(viewQueries, counts) : [])
  const sessionQueries = ofSessions.map((each) => viewQueries.statsQuery(each))
  const sessionsBatch = useBatch(
    areCountsSettled ? [...sessionQueries, ...comparedQueries(viewQueries, ofSessions)] : [],
  )
  const headlines = withoutEmptyRange([
    ...counts.map(
      (each, at) => [each, headlineOf(viewQueries, each, [countsBatch, at], [comparedCountsBatch, at])] as const,
    ),
    ...ofSessions.map(
      (each, at) =>
        [each, headlineOf(viewQueries, each, [sessionsBatch, at], [sessionsBatch, at + ofSessions.length])] as const,
    ),
  ])

  const events = headlines.event_count.result
  // A range that ends now is queried again each minute. An empty view stays empty until the answer arrives.
  const view = JSON.stringify([siteId, range, filters, viewQueries.environment, viewQueries.zone, exact])
  const empty = useRef<string>()
  if (events !== undefined && !countsBatch.isPlaceholderData) empty.current = events.value === 0 ? view : undefined
  const isEmpty = empty.current === view
  const error = countsBatch.data === undefined ? countsBatch.error : undefined
  // One error panel is enough, because Retry sends the whole batch again.
  const failed = [countsBatch, comparedCountsBatch, sessionsBatch].find((batch) => errorOf(batch) !== undefined)
  const isEstimated = headlineMetrics.some((each) => headlines[each].result?.estimated === true)
  const answeredAt = events === undefined ? undefined : events.timestamp - events.complete_until
  const isOldArriving = answeredAt !== undefined && lagMs.value !== undefined && answeredAt - lagMs.value > oldRowsMs
  return (
    <>
      <PageTitle title={site.name || siteId} sentence={<bdi>{sentence}</bdi>} actions={<Share {...viewQueries} />} />
      {error === undefined ? (
        <div class={countsBatch.isFetching ? 'refreshing' : undefined}>
          <Headlines
            headlines={headlines}
            metric={metric}
            onChoose={(chosen) => {
              setView({ metric: chosen })
            }}
          />
        </div>
      ) : (
        <ErrorPanel error={error} onRetry={countsBatch.retry} />
      )}
      {error !== undefined || failed === undefined ? null : <BatchError batch={failed} />}
      <Notes
        isEstimated={isEstimated}
        isOfSessions={filters.length > 0 && !(counts as readonly string[]).includes(metric)}
        isOldArriving={isOldArriving}
      />
      {isEmpty ? (
        <EmptyRange viewQueries={viewQueries} />
      ) : (
        <>
          <ChartPanel viewQueries={viewQueries} sentence={sentence} isEnabled={areCountsSettled} />
          <div class="panels">
            {panelDimensions.map((dimension) =>
              dimension === 'country' ? (
                <CountriesPanel key={dimension} viewQueries={viewQueries} isEnabled={areCountsSettled} />
              ) : (
                <Panel
                  key={dimension}
                  title={texts.panels[dimension]}
                  dimension={dimension}
                  viewQueries={viewQueries}
                  isEnabled={areCountsSettled}
                />
              ),
            )}
            <PropertiesPanel viewQueries={viewQueries} isEnabled={areCountsSettled} />
          </div>
        </>
      )}
    </>
  )
}

/** Fetches queries in one request; without a query, no request is sent. */
function useBatch(queries: StatsQuery[]): Batch {
  return useApi('statsBatch', queries.length === 0 ? null : { body: { queries } }, { refetchMs: batchRefreshMs })
}

/** The queries about the compared range; none without one. */
const comparedQueries = (viewQueries: ViewQueries, metrics: readonly HeadlineMetric[]): StatsQuery[] =>
  metrics.map((each) => viewQueries.comparedQuery(each)).filter((each) => each !== undefined)

/** The headlines by metric. A rate or a duration of a range without a session is none to compare, or compare with. */
function withoutEmptyRange(entries: (readonly [HeadlineMetric, Headline])[]): Record<HeadlineMetric, Headline> {
  const headlines = Object.fromEntries(entries) as Record<HeadlineMetric, Headline>
  const { result, before } = headlines.unique_sessions
  if (result?.value === 0 || before?.value === 0)
    for (const each of ofSessions) headlines[each] = { ...headlines[each], before: undefined }
  return headlines
}

/** A headline of the results at two places of batches; without a comparison, there is nothing at the second. */
function headlineOf(
  viewQueries: ViewQueries,
  metric: HeadlineMetric,
  now: [Batch, number],
  before: [Batch, number],
): Headline {
  const resultAt = ([{ data }, at]: [Batch, number]) => resultOf(data?.results[at])
  return {
    statsQuery: viewQueries.statsQuery(metric),
    viewQueries,
    result: resultAt(now),
    // A change needs the answers of the same two ranges.
    before:
      viewQueries.compared === undefined || before[0].isPlaceholderData || now[0].isPlaceholderData
        ? undefined
        : resultAt(before),
    isPlaceholderData: now[0].isPlaceholderData,
  }
}

function Notes({
  isEstimated,
  isOfSessions,
  isOldArriving,
}: {
  isEstimated: boolean
  isOfSessions: boolean
  isOldArriving: boolean
}) {
  const { exact, setView } = useView()
  const [text, action] = exact ? [texts.countedExactly, texts.estimateAgain] : [texts.estimate, texts.countExactly]
  return (
    <div class="notes small muted">
      {exact || isEstimated ? (
        <p>
          {text}{' '}
          <Button
            kind="quiet"
            onClick={() => {
              setView({ exact: exact ? undefined : true })
            }}
          >
            {action}
          </Button>
        </p>
      ) : null}
      {isOfSessions ? <p>{texts.sessionsWith}</p> : null}
      {isOldArriving ? <p>{messages.freshness.oldRows}</p> : null}
    </div>
  )
}

/** J and K move between the chart and the panels, `.` opens the menu of what has the focus, R leads to Live. */
function usePanelShortcuts(hrefOf: ViewState['hrefOf']) {
  const { route } = useLocation()
  const move = (step: number) => {
    const panels = [...document.querySelectorAll<HTMLElement>('[data-panel]')]
    const at = panels.findIndex((panel) => panel.contains(document.activeElement))
    const to = at === -1 ? (step === 1 ? 0 : panels.length - 1) : Math.min(Math.max(at + step, 0), panels.length - 1)
    panels[to]?.focus()
    panels[to]?.scrollIntoView({ block: 'nearest' })
  }
  useShortcut('j', texts.next, () => move(1))
  useShortcut('k', texts.previous, () => move(-1))
  useShortcut('.', texts.menu, () =>
    document.activeElement?.closest('[data-menu]')?.querySelector<HTMLElement>('.more')?.click(),
  )
  useShortcut('r', texts.live, () => {
    route(hrefOf({}, 'live'))
  })
}
