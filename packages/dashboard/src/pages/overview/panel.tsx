import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Dimension } from '@sluice/contracts/stats'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { rangeRefreshMs } from '../../api/range-refresh.ts'
import type { StatsQuery } from '../../api/wire.ts'
import { isNarrow } from '../../app/narrow.ts'
import { messages } from '../../messages/en.ts'
import { useFilterClick } from '../../page-components/use-filter-click.ts'
import { choiceOf, conditionOf } from '../../state/conditions.ts'
import { useChosenView, useView, type ViewQueries } from '../../state/hooks.ts'
import { Button } from '../../ui/button.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, SkeletonRows } from '../../ui/states.tsx'
import { AllDialog } from './all-dialog.tsx'
import { texts } from './messages.ts'
import { breakdownSource, groupLabel, otherKey, panelMetric, type PanelRow, rowsOf, withoutChoice } from './queries.ts'

/** Rows of a panel on wide pages. */
const panelRows = 9
/** Rows of a panel on narrow pages, see overview.css. */
const narrowRows = 6
/** Chosen values that a panel lists in addition to the most frequent ones, in place of the last of them. */
const rareRowsMax = 4

/** Whether there are more groups than those that the page shows. */
const hasMoreRows = (groups: readonly PanelRow[], listed: readonly PanelRow[]): boolean =>
  listed.length < groups.length || (isNarrow.value && listed.length > narrowRows)

/**
 * The query for the first `rareRowsMax` of `values` only: without the filter, more frequent values would fill the
 * limit.
 */
function queryAbout(values: readonly string[], statsQuery: StatsQuery, dimension: Dimension): StatsQuery {
  const { filter = [], ...others } = statsQuery
  const condition = conditionOf(dimension, values.slice(0, rareRowsMax), false)
  return { ...others, filter: [...filter, condition], limit: rareRowsMax }
}

interface PanelProps {
  title: string
  dimension: Dimension
  viewQueries: ViewQueries
  /** False while what stands above is still being fetched: a key's queries are answered in the order of reading. */
  isEnabled: boolean
  /** Stands next to the title. */
  choice?: ComponentChildren
  /** Stands in place of the groups. */
  body?: ComponentChildren
  /** Number of groups to fetch; default: nine. */
  limit?: number
  /** Draws the groups otherwise than as rows. */
  draw?: ((rows: readonly PanelRow[], chosen: readonly string[]) => ComponentChildren) | undefined
}

/** Fetches the groups of a panel, and the chosen values that are not among them. */
function useGroups({ title, dimension, viewQueries, isEnabled, limit = panelRows }: PanelProps) {
  const { metric: chosenMetric, filters } = useView()
  const metric = panelMetric(chosenMetric)
  const statsQuery = withoutChoice(viewQueries.statsQuery(metric, { group_by: dimension, limit }), dimension)
  const answer = useApi('stats', isEnabled ? { query: statsQuery } : null, { refetchMs: rangeRefreshMs })
  const result = answer.data?.group_by === dimension ? answer.data : undefined
  const groups = rowsOf(result)
  const listed = groups.filter(({ key }) => key !== otherKey)
  // Chosen values that are not among the most frequent ones have a query of their own.
  const chosen = [...new Set(choiceOf(filters, dimension))]
  const rare = chosen.filter((value) => listed.every(({ key }) => key !== value))
  const rareQuery = queryAbout(rare, statsQuery, dimension)
  const rareAnswer = useApi('stats', result !== undefined && rare.length > 0 ? { query: rareQuery } : null, {
    refetchMs: rangeRefreshMs,
  })
  const rareResult = rareAnswer.data?.group_by === dimension ? rareAnswer.data : undefined
  const isOld = answer.isPlaceholderData || (rareResult !== undefined && rareAnswer.isPlaceholderData)
  // The rows of both queries belong together: the former rows stay until both are answered.
  const shown = useFromAnswer({ data: result, isPlaceholderData: isOld }, (answered) => {
    const rareRows = rowsOf(rareResult).filter(({ key }) => rare.includes(key))
    const rows = [...listed.slice(0, limit - rareRows.length), ...rareRows]
    const joint = rareRows.length === 0 ? undefined : { statsQuery: rareQuery, rows }
    return {
      metric: answered.metric,
      rows,
      hasMore: hasMoreRows(groups, listed),
      source: breakdownSource(title, statsQuery, answered, { ...viewQueries, joint }),
    }
  })
  return { metric, chosen, answer, rareAnswer, isOld, shown }
}

/**
 * The values of a dimension, the most frequent first; a click on one filters. While values are chosen, the others stay,
 * so that one of them can be chosen as well.
 */
export function Panel(props: PanelProps) {
  const { title, dimension, viewQueries, choice, body, draw } = props
  const [isAll, setAll] = useState(false)
  const { metric, chosen, answer, rareAnswer, isOld, shown } = useGroups(props)
  return (
    <section
      class={`panel${isOld ? ' old' : ''}${answer.isFetching ? ' refreshing' : ''}`}
      aria-label={title}
      data-panel
      tabIndex={-1}
      data-menu
    >
      <header class="panel-head">
        <h2>{title}</h2>
        {choice}
        <span class="label panel-metric">{messages.metrics[shown?.metric ?? metric]}</span>
        <MoreMenu source={shown?.source} />
      </header>
      {body !== undefined ? (
        body
      ) : shown === undefined ? (
        answer.error === undefined ? (
          <SkeletonRows rows={panelRows} />
        ) : (
          <ErrorPanel error={answer.error} onRetry={answer.retry} />
        )
      ) : shown.rows.length === 0 ? (
        <p class="muted panel-empty">{texts.nothing}</p>
      ) : (
        (draw?.(shown.rows, chosen) ?? <Rows dimension={dimension} rows={shown.rows} />)
      )}
      <ErrorPanel error={rareAnswer.error} onRetry={rareAnswer.retry} />
      {shown?.hasMore === true ? (
        <Button kind="quiet" class="panel-all" onClick={() => setAll(true)}>
          {texts.all}
        </Button>
      ) : null}
      {isAll ? (
        <AllDialog
          title={title}
          dimension={dimension}
          viewQueries={viewQueries}
          metric={metric}
          onClose={() => setAll(false)}
        />
      ) : null}
    </section>
  )
}

/** A row with a bar as long as its share of the first; it is a button that filters. */
function Rows({ dimension, rows }: { dimension: Dimension; rows: readonly PanelRow[] }) {
  const filterBy = useFilterClick()
  const { filters: chosenFilters } = useChosenView()
  const highest = Math.max(...rows.map((row) => row.value), 1)
  const chosen = choiceOf(chosenFilters, dimension)
  return (
    <ol class="bars">
      {rows.map(({ key, value, estimated }) => (
        <li key={key}>
          <button
            type="button"
            class="bar"
            title={texts.rowHint}
            aria-pressed={chosen.includes(key)}
            onClick={(event) => filterBy(dimension, key, event)}
          >
            <span class="bar-fill" style={{ inlineSize: `${(value / highest) * 100}%` }} />
            <span class="bar-label truncate" title={key}>
              <bdi>{groupLabel(dimension, key)}</bdi>
            </span>
            <Num value={value} isEstimated={estimated} name={key} />
          </button>
        </li>
      ))}
    </ol>
  )
}
