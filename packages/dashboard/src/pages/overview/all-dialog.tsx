import { useMemo, useState } from 'preact/hooks'
import { conditionLimits } from '@sluice/contracts/conditions'
import type { CreateExportBody } from '@sluice/contracts/exports'
import type { Dimension, Metric } from '@sluice/contracts/stats'
import type { BatchEntry, StatsBatchResult } from '@sluice/contracts/stats-batch'
import { call } from '../../api/client.ts'
import { useApi, useCachedQuery, useFromAnswer, useOperationMutation } from '../../api/hooks.ts'
import { batchRefreshMs, rangeRefreshMs } from '../../api/range-refresh.ts'
import type { StatsQuery } from '../../api/wire.ts'
import { formatNumber, kindOf } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { useFilterClick } from '../../page-components/use-filter-click.ts'
import { choiceOf, clickOf, conditionOf } from '../../state/conditions.ts'
import { useView, type ViewQueries } from '../../state/hooks.ts'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { TextField } from '../../ui/field.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num, Unknown } from '../../ui/numbers.tsx'
import { ErrorPanel, SkeletonRows } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { useDebouncedValue } from '../../ui/use-debounced-value.ts'
import { type Batch, BatchError } from './batch-error.tsx'
import { texts } from './messages.ts'
import { breakdownSource, groupLabel, otherKey, type PanelRow, resultOf, rowsOf, withoutChoice } from './queries.ts'

const rowsMax = 1_000
/**
 * How many rows get their other metrics at once, of those that a search finds. The further rows get theirs when the
 * table is sorted by one of them.
 */
const detailedRows = 50
/** Bytes of the values that one query names: a filter has room for twice as many, and may have other conditions. */
const keysBytesMax = conditionLimits.textBytesMax / 2
const otherMetrics = ['visitors', 'event_count', 'bounce_rate', 'avg_session_duration'] as const

interface AllDialogProps {
  title: string
  dimension: Dimension
  viewQueries: ViewQueries
  metric: Metric
  onClose: () => void
}

/** Up to 1,000 values of a dimension with other metrics, and an export of all. */
export function AllDialog({ title, dimension, viewQueries, metric, onClose }: AllDialogProps) {
  const { filters } = useView()
  const filterBy = useFilterClick()
  const [text, setText] = useState('')
  const [isRanked, setRanked] = useState(false)
  const statsQuery = withoutChoice(viewQueries.statsQuery(metric, { group_by: dimension, limit: rowsMax }), dimension)
  const answer = useApi('stats', { query: statsQuery }, { refetchMs: rangeRefreshMs })
  const source = useFromAnswer(answer, (answered) => breakdownSource(title, statsQuery, answered, viewQueries))
  const chosen = choiceOf(filters, dimension)
  const result = answer.data
  const entries = useMemo(() => rowsOf(result), [result])
  const found = (searched: string) =>
    entries.filter(({ key }) =>
      `${key} ${groupLabel(dimension, key)}`.toLowerCase().includes(searched.trim().toLowerCase()),
    )
  const debouncedText = useDebouncedValue(text)
  const detailed = new Set((isRanked ? entries : found(debouncedText).slice(0, detailedRows)).map(({ key }) => key))
  const { details, batch } = useDetails(viewQueries, dimension, metric, [...detailed])
  /** The note of a row whose metrics were not queried; undefined for "(other)", whose metrics can't be. */
  const notQueried = (key: string): Detail | undefined =>
    detailed.has(key) || key === otherKey ? undefined : { why: texts.notQueried }
  const columns: Column<PanelRow>[] = [
    {
      id: 'key',
      header: title,
      sort: ({ key }) => groupLabel(dimension, key),
      cell: ({ key }) => <bdi>{groupLabel(dimension, key)}</bdi>,
    },
    {
      id: metric,
      header: messages.metrics[metric],
      align: 'end',
      sort: ({ value }) => value,
      cell: ({ key, value, estimated }) => <Num value={value} isEstimated={estimated} name={key} />,
    },
    ...details.map(({ metric: other, values }) => ({
      id: other,
      header: messages.metrics[other],
      align: 'end' as const,
      sort: ({ key }: PanelRow) => values.get(key)?.value,
      onSort: () => setRanked(true),
      cell: ({ key }: PanelRow) => <DetailCell detail={values.get(key) ?? notQueried(key)} metric={other} name={key} />,
    })),
  ]
  return (
    <Dialog
      title={texts.allTitle(title)}
      size="large"
      onClose={onClose}
      actions={<ExportAll title={title} statsQuery={statsQuery} />}
    >
      <div class="stack">
        <div class="all-head">
          <TextField label={texts.search} type="search" value={text} onInput={setText} />
          <MoreMenu source={source} />
        </div>
        <ErrorPanel error={answer.error} onRetry={answer.retry} />
        <BatchError batch={batch} />
        {result === undefined && answer.error === undefined ? <SkeletonRows rows={9} /> : null}
        {result === undefined ? null : (
          <DataTable
            caption={title}
            columns={columns}
            rows={found(text)}
            rowKey={({ key }) => key}
            empty={<p class="muted">{messages.ui.noMatch}</p>}
            onOpen={({ key }, event) => {
              if (key === otherKey) return
              // More values can be added one after the other.
              if (clickOf(event) === 'is') onClose()
              filterBy(dimension, key, event)
            }}
            isChosen={({ key }) => chosen.includes(key)}
          />
        )}
        {entries.some(({ key }) => key === otherKey) ? (
          <p class="muted small">{texts.truncated(formatNumber(rowsMax))}</p>
        ) : null}
      </div>
    </Dialog>
  )
}

/** Another metric of a value, or why there is none. */
interface Detail {
  value?: number
  isEstimated?: boolean
  why?: string
}

function DetailCell({ detail, metric, name }: { detail: Detail | undefined; metric: Metric; name: string }) {
  const { value, isEstimated = false, why = '' } = detail ?? {}
  if (detail === undefined) return null
  if (value === undefined) return <Unknown why={why} />
  return (
    <span class="muted">
      <Num value={value} isEstimated={isEstimated} kind={kindOf(metric)} name={name} />
    </span>
  )
}

/** Values in groups that one query has room for. */
function groupsOf(keys: readonly string[]): string[][] {
  const encoder = new TextEncoder()
  const groups: string[][] = []
  let bytes = keysBytesMax
  for (const key of keys) {
    const size = encoder.encode(key).length
    if (bytes + size > keysBytesMax) {
      groups.push([])
      bytes = 0
    }
    groups.at(-1)?.push(key)
    bytes += size
  }
  return groups
}

interface Details {
  metric: Metric
  values: ReadonlyMap<string, Detail>
}

/** Other metrics of some values: a query for each metric and each group of values, of these values alone. */
function useDetails(
  viewQueries: ViewQueries,
  dimension: Dimension,
  metric: Metric,
  keys: readonly string[],
): { details: Details[]; batch: Batch } {
  const others = otherMetrics.filter((each) => each !== metric)
  // An absent value can't stand in a list.
  const groups = [
    ...groupsOf(keys.filter((key) => key !== '' && key !== otherKey)),
    ...(keys.includes('') ? [['']] : []),
  ]
  const requests = groups.map((group) =>
    others.map((each): StatsQuery => {
      const statsQuery = withoutChoice(viewQueries.statsQuery(each, { group_by: dimension, limit: rowsMax }), dimension)
      return { ...statsQuery, filter: [...(statsQuery.filter ?? []), conditionOf(dimension, group, false)] }
    }),
  )
  const batch = useCachedQuery(
    requests.length === 0 ? null : ['details', requests],
    async (signal) => {
      const results: StatsBatchResult['results'] = []
      for (const queries of requests) results.push(...(await call('statsBatch', { body: { queries } }, signal)).results)
      return { results, groups }
    },
    { refetchMs: batchRefreshMs },
  )
  const details = others.map((each, at) => {
    const answered = batch.data?.groups.map((group, place) =>
      detailsOf(group, batch.data?.results[place * others.length + at]),
    )
    return { metric: each, values: new Map(answered?.flat()) }
  })
  return { details, batch }
}

/**
 * The metric of each value of a group. The answer may also list values outside the group: sessions can begin with such
 * a value and have an event of the group later. They are left out, because the answer does not cover all their sessions.
 */
function detailsOf(group: readonly string[], entry: BatchEntry | undefined): [string, Detail][] {
  const result = resultOf(entry)
  if (result === undefined) return []
  const found = new Map(
    (result.breakdown ?? []).map(({ key = '', value, estimated = false }) => [key, { value, isEstimated: estimated }]),
  )
  const why = found.has(otherKey) ? texts.tooLow(formatNumber(rowsMax)) : texts.noSession
  return group.map((key) => [key, found.get(key) ?? { why }])
}

function ExportAll({ title, statsQuery }: { title: string; statsQuery: StatsQuery }) {
  const create = useOperationMutation('createExport', ['listExports'])
  const { site_id, metric, group_by, start_date, end_date, environment, filter } = statsQuery
  const fields = Object.fromEntries(
    Object.entries({ metric, group_by, start_date, end_date, environment, filter }).filter(
      ([, value]) => value !== undefined,
    ),
  )
  const exported: CreateExportBody = { site_id, type: 'stats', format: 'csv', name: texts.exportName(title), ...fields }
  return (
    <>
      <ErrorPanel error={create.error} />
      <Button
        icon="file-down"
        isBusy={create.isBusy}
        onClick={() => {
          create.start({ body: exported }, () => toast(texts.exportStarted))
        }}
      >
        {texts.exportAll}
      </Button>
    </>
  )
}
