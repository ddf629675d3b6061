import { useEffect, useId, useRef } from 'preact/hooks'
import type { StatsResult } from '@sluice/contracts/stats'
import { useFromAnswer } from '../../api/hooks.ts'
import type { StatsQuery } from '../../api/wire.ts'
import { formatExact, formatValue, kindOf } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { useChosenView, useView, type ViewQueries } from '../../state/hooks.ts'
import { type HeadlineMetric, headlineMetrics } from '../../state/view.ts'
import { announce } from '../../ui/announce.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Change, Num } from '../../ui/numbers.tsx'
import { Skeleton } from '../../ui/states.tsx'
import { texts } from './messages.ts'
import { numberSource } from './queries.ts'

/** A headline number: the query, its answer, and the answer of the compared range. */
export interface Headline {
  statsQuery: StatsQuery
  viewQueries: ViewQueries
  result: StatsResult | undefined
  before: StatsResult | undefined
  isPlaceholderData: boolean
}

interface HeadlinesProps {
  headlines: Readonly<Record<HeadlineMetric, Headline>>
  metric: HeadlineMetric
  onChoose: (metric: HeadlineMetric) => void
}

/** The six numbers; as radio buttons they choose what the chart shows. */
export function Headlines({ headlines, metric, onChoose }: HeadlinesProps) {
  const group = useRef<HTMLDivElement>(null)
  const { metric: chosen } = useChosenView()
  const shown = headlines[metric]
  const value = shown.isPlaceholderData ? undefined : shown.result?.value
  const { range, compare, filters } = useView()
  const spoken = useRef('')
  useEffect(() => {
    if (value === undefined) return
    const text = texts.spoken(messages.metrics[metric], formatExact(value, kindOf(metric)))
    // A range that reaches now is refetched each minute: an unchanged number of the same view is not said again.
    const said = JSON.stringify([text, range, compare, filters])
    if (said !== spoken.current) announce(text)
    spoken.current = said
  }, [metric, value])
  const move = (event: KeyboardEvent) => {
    const steps: Partial<Record<string, number>> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }
    const step = steps[event.key]
    if (step === undefined || (event.target as Element).getAttribute('role') !== 'radio') return
    event.preventDefault()
    const at = (headlineMetrics.indexOf(metric) + step + headlineMetrics.length) % headlineMetrics.length
    onChoose(headlineMetrics[at] ?? metric)
    group.current?.querySelectorAll<HTMLElement>('[role="radio"]')[at]?.focus()
  }
  return (
    <div class="headlines" role="radiogroup" aria-label={texts.metric} ref={group} onKeyDown={move}>
      {headlineMetrics.map((each) => (
        <HeadlineNumber
          key={each}
          metric={each}
          {...headlines[each]}
          isChosen={each === chosen}
          onChoose={() => onChoose(each)}
        />
      ))}
    </div>
  )
}

interface HeadlineNumberProps extends Headline {
  metric: HeadlineMetric
  isChosen: boolean
  onChoose: () => void
}

function HeadlineNumber({
  metric,
  statsQuery,
  viewQueries,
  result,
  before,
  isPlaceholderData,
  isChosen,
  onChoose,
}: HeadlineNumberProps) {
  const id = useId()
  const kind = kindOf(metric)
  const label = messages.metrics[metric]
  const source = useFromAnswer({ data: result, isPlaceholderData }, (answered) =>
    numberSource(label, statsQuery, answered, viewQueries),
  )
  return (
    <div class={`headline${isChosen ? ' chosen' : ''}${isPlaceholderData ? ' old' : ''}`} data-menu>
      <button
        type="button"
        role="radio"
        aria-checked={isChosen}
        aria-label={label}
        aria-describedby={id}
        tabIndex={isChosen ? 0 : -1}
        data-number={result === undefined ? undefined : String(result.value)}
        onClick={onChoose}
      >
        <span class="label">{label}</span>
        <span id={id} class="headline-value">
          {result === undefined ? (
            <Skeleton width={88} height={32} />
          ) : (
            <Num value={result.value} kind={kind} isEstimated={result.estimated === true} name={metric} />
          )}
          <span class="headline-change">
            {result === undefined || before === undefined ? (
              ' '
            ) : (
              <>
                <Change before={before.value} after={result.value} kind={kind} />
                <span class="hidden-text"> ({texts.before(formatValue(before.value, kind))})</span>
              </>
            )}
          </span>
        </span>
      </button>
      <MoreMenu source={source} />
    </div>
  )
}
