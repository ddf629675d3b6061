import { useEffect, useState } from 'preact/hooks'
import type { StatsResult, TimeUnit } from '@sluice/contracts/stats'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { batchRefreshMs } from '../../api/range-refresh.ts'
import type { StatsQuery } from '../../api/wire.ts'
import { useShortcut } from '../../app/shortcuts.tsx'
import { Chart, preloadChart } from '../../charts/chart.tsx'
import { formatBounds, formatBucket } from '../../format/dates.ts'
import { changeOf, formatChange, formatValue, kindOf } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { useView, type ViewQueries } from '../../state/hooks.ts'
import { type Bounds, bucketEnd, customOfBuckets, isSplitBy } from '../../state/range.ts'
import { MoreMenu, TableDialog } from '../../ui/more-menu.tsx'
import { Select } from '../../ui/select.tsx'
import { EmptyState } from '../../ui/states.tsx'
import { BatchError, errorOf } from './batch-error.tsx'
import { texts } from './messages.ts'
import { breakdownSource, resultOf } from './queries.ts'

interface ChartPanelProps {
  viewQueries: ViewQueries
  sentence: string
  /** False while the numbers are still being fetched. */
  isEnabled: boolean
}

/** The chosen metric over time, and over the compared range. */
export function ChartPanel({ viewQueries, sentence, isEnabled }: ChartPanelProps) {
  const { metric, setView } = useView()
  const { unit, units, zone, bounds } = viewQueries
  const [isTable, setTable] = useState(false)
  const statsQuery = viewQueries.statsQuery(metric, { group_by: unit })
  const { answer, result, earlier, compared } = useChart(viewQueries, statsQuery, isEnabled)
  const label = messages.metrics[metric]
  const source = useFromAnswer({ data: result, isPlaceholderData: answer.isPlaceholderData }, (answered) =>
    breakdownSource(label, statsQuery, answered, viewQueries),
  )
  const hasSource = source !== undefined
  useShortcut('t', texts.showTable, () => setTable(hasSource))
  // A table without numbers closes, and does not open again with the next ones.
  useEffect(() => {
    if (!hasSource) setTable(false)
  }, [hasSource])
  return (
    <section
      class={`chart-panel${answer.isPlaceholderData ? ' old' : ''}${answer.isFetching ? ' refreshing' : ''}`}
      aria-label={label}
      data-panel
      tabIndex={-1}
      data-menu
    >
      <header class="panel-head">
        <h2>{label}</h2>
        <Legend
          now={answeredBounds(result, bounds) ?? bounds}
          before={result === undefined ? compared : answeredBounds(earlier, compared)}
          zone={zone}
          isUncompared={viewQueries.compared !== undefined && compared === undefined}
        />
        <Select<TimeUnit>
          class="quiet-input"
          name={texts.interval}
          value={unit}
          options={units.map((value) => ({ value, label: texts.units[value] }))}
          onChange={(by) => {
            setView({ by })
          }}
        />
        <MoreMenu source={source} />
      </header>
      <BatchError batch={answer} />
      {result === undefined ? (
        errorOf(answer) === undefined && <div class="chart-place" />
      ) : (
        <ResultChart result={result} before={earlier} sentence={sentence} viewQueries={viewQueries} />
      )}
      {isTable && source !== undefined ? <TableDialog source={source} onClose={() => setTable(false)} /> : null}
    </section>
  )
}

/** The range of an answer, which may be older than the one that is being fetched. */
const answeredBounds = (result: StatsResult | undefined, requested: Bounds | undefined): Bounds | undefined =>
  result === undefined ? undefined : { ...requested, startMs: result.start_date, endMs: result.end_date, isOpen: false }

/**
 * Fetches the chart, and that of the compared range where it can be split as well: `compared` is undefined
 * elsewhere.
 */
function useChart(viewQueries: ViewQueries, statsQuery: StatsQuery, isEnabled: boolean) {
  const { metric } = statsQuery
  const { unit } = viewQueries
  const compared = viewQueries.compared && isSplitBy(viewQueries.compared, unit) ? viewQueries.compared : undefined
  const before = compared && viewQueries.comparedQuery(metric, { group_by: unit })
  const queries = before === undefined ? [statsQuery] : [statsQuery, before]
  const answer = useApi('statsBatch', isEnabled ? { body: { queries } } : null, { refetchMs: batchRefreshMs })
  useEffect(() => {
    if (isEnabled) preloadChart()
  }, [isEnabled])
  const [entry, earlier] = answer.data?.results ?? []
  // The old numbers of another metric would stand under a wrong title.
  if (entry?.success === true && entry.data.metric !== metric) return { answer, compared }
  return { answer, result: resultOf(entry), earlier: resultOf(earlier), compared }
}

interface LegendProps {
  now: Bounds
  before: Bounds | undefined
  zone: string
  /** The compared range can't be split as the range is. */
  isUncompared: boolean
}

function Legend({ now, before, zone, isUncompared }: LegendProps) {
  return (
    <span class="chart-legend">
      <span class="key-line" /> <bdi>{formatBounds(now, zone)}</bdi>
      {before === undefined ? null : (
        <>
          <span class="key-line compare" /> <bdi class="muted">{formatBounds(before, zone)}</bdi>
        </>
      )}
      {isUncompared ? <span class="muted">{texts.uncompared}</span> : null}
    </span>
  )
}

interface ResultChartProps {
  result: StatsResult
  before: StatsResult | undefined
  sentence: string
  viewQueries: ViewQueries
}

/** The unit that a click on a bucket leads to. */
const finer: Partial<Record<TimeUnit, TimeUnit>> = { month: 'day', week: 'day', day: 'hour' }

function ResultChart({ result, before, sentence, viewQueries }: ResultChartProps) {
  const { setView } = useView()
  const { metric, breakdown = [], timezone: zone, start_date: startMs, end_date: endMs } = result
  // The unit of the answer: the view's may be a newer one.
  const unit = (result.group_by ?? viewQueries.unit) as TimeUnit
  const kind = kindOf(metric)
  const timestamps = breakdown.map((entry) => entry.timestamp)
  const values = breakdown.map((entry) => entry.value)
  const first = timestamps[0]
  const last = timestamps.at(-1)
  if (first === undefined || last === undefined) return <EmptyState title={texts.nothing} />
  const highest = Math.max(...values)
  const highestAt = timestamps[values.indexOf(highest)] ?? first
  const change = before === undefined ? undefined : changeOf(before.value, result.value, kind)
  const say = (value: number, at: number) => `${formatBucket(at, unit, zone)}: ${formatValue(value, kind)}`
  const summary = texts.chartSummary(
    say(values.at(-1) ?? 0, last),
    say(highest, highestAt),
    change === undefined ? '' : texts.changeOfAll(formatChange(change), 'isRise' in change ? change.isRise : undefined),
  )
  const select = (from: number, to: number) => {
    const buckets = { from: timestamps[from] ?? startMs, to: timestamps[to] ?? last, unit }
    const answered = { startMs, endMs, isOpen: viewQueries.bounds.isOpen }
    setView({ range: customOfBuckets(buckets, answered, zone), by: undefined })
  }
  return (
    <Chart
      caption={sentence}
      summary={summary}
      help={texts.chartHelp}
      timestamps={timestamps}
      values={values}
      compared={
        before?.breakdown === undefined
          ? undefined
          : {
              timestamps: before.breakdown.map((entry) => entry.timestamp),
              values: before.breakdown.map((entry) => entry.value),
            }
      }
      kind={kind}
      unit={unit}
      zone={zone}
      isFirstPartial={first < startMs}
      isLastPartial={bucketEnd(last, unit, zone) > endMs}
      firstNote={texts.partial}
      lastNote={viewQueries.bounds.isOpen ? texts.incomplete : texts.partial}
      {...(finer[unit] === undefined
        ? {}
        : {
            onPick: (at: number) => select(at, at),
          })}
      onSelect={select}
    />
  )
}
