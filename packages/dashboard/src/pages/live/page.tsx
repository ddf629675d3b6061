import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { LiveQuery, LiveResult } from '@sluice/contracts/live'
import { dayMs, minuteMs } from '@sluice/contracts/time-units'
import { serverNow } from '../../api/client.ts'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { useShortcut } from '../../app/shortcuts.tsx'
import { Columns } from '../../charts/columns.tsx'
import { fileNameOf } from '../../format/csv.ts'
import { formatIso, formatRelative, formatTime } from '../../format/dates.ts'
import { eventRows } from '../../format/events.ts'
import { messages } from '../../messages/en.ts'
import { ClearFilters } from '../../page-components/clear-filters.tsx'
import { useMenuKey } from '../../page-components/use-menu-key.ts'
import { AllEnvironments } from '../../page-components/wider-view.tsx'
import { useView, useViewQueries } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { announce } from '../../ui/announce.tsx'
import { MoreMenu, type NumberSource, TableDialog } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { EmptyState, ErrorPanel, PageTitle, Skeleton, SkeletonRows } from '../../ui/states.tsx'
import { useOverdue } from '../../ui/use-overdue.ts'
import { Feed } from './feed.tsx'
import { texts } from './messages.ts'

const visibleRefetchMs = 2_000
const hiddenRefetchMs = 15_000
const announceIntervalMs = 30_000
/** Older figures are muted: they are no longer the present. */
const presentMs = hiddenRefetchMs + 5_000
/** The latest events are of the last 24 hours. */
const feedMs = dayMs

/** Refetches every 2 seconds, every 15 while the page is hidden, and at once when it is shown again. */
const useLive = (query: LiveQuery) =>
  useApi(
    'live',
    { query },
    {
      refetchMs: () => (document.visibilityState === 'visible' ? visibleRefetchMs : hiddenRefetchMs),
      refetchInBackground: true,
      staleMs: 0,
    },
  )

/** The events and figures of the present. */
export default function Page() {
  const { siteId, filters } = useView()
  const { environment, zone } = useViewQueries()
  const query: LiveQuery = { site_id: siteId, environment, ...(filters.length === 0 ? {} : { filter: filters }) }
  const live = useLive(query)
  useMenuKey()
  const { data, error, isPlaceholderData, answeredAt } = live
  const isOverdue = useOverdue(answeredAt, presentMs)
  const isPast = isPlaceholderData || isOverdue || error !== undefined
  /** What may be announced as the present. */
  const present = useRef(data)
  present.current = isPast ? undefined : data
  useEffect(() => {
    const timer = setInterval(() => {
      if (present.current !== undefined && document.visibilityState === 'visible')
        announce(texts.spoken(present.current.visitors_5m, present.current.events_5m))
    }, announceIntervalMs)
    return () => clearInterval(timer)
  }, [])
  // What is shown belongs to this query until the next one is answered.
  const shownQuery = useFromAnswer(live, () => query) ?? query
  const request = requestOf('live', { query: shownQuery })
  const sourceOf = (label: string, part: string, rows: NumberSource['rows']): NumberSource => ({
    label,
    request,
    rows,
    fileName: fileNameOf([siteId, 'live', part, formatIso(serverNow(), zone).slice(0, 16)], 'csv'),
  })
  return (
    <>
      <PageTitle title={messages.nav.live} sentence={texts.sentence} />
      <div class="stack">
        <ErrorPanel error={error} onRetry={live.retry} />
        <div class={`stack live${isPast ? ' old' : ''}`}>
          <div class="live-now">
            <Now data={data} isLoading={live.isLoading} sourceOf={sourceOf} />
            <Minutes data={data} answeredAt={answeredAt} isLoading={live.isLoading} zone={zone} sourceOf={sourceOf} />
          </div>
          {live.isLoading ? <SkeletonRows rows={12} /> : null}
          {data === undefined ? null : data.last_events.length === 0 ? (
            <NoEvents />
          ) : (
            <Feed
              key={JSON.stringify(shownQuery)}
              events={data.last_events}
              zone={zone}
              sourceOf={(listed) => sourceOf(texts.feed, 'events', () => eventRows(listed, zone))}
            />
          )}
        </div>
      </div>
    </>
  )
}

interface PartProps {
  data: LiveResult | undefined
  isLoading: boolean
  sourceOf: (label: string, part: string, rows: NumberSource['rows']) => NumberSource
}

function Now({ data, isLoading, sourceOf }: PartProps) {
  const names = ['visitors_5m', 'events_5m'] as const
  return (
    <section class="live-numbers" aria-label={texts.now}>
      {names.map((name) => (
        <div key={name}>
          <h2 class="label">{name === 'visitors_5m' ? texts.visitors : texts.events}</h2>
          <p class="big-number">
            {data === undefined ? isLoading ? <Skeleton width={72} height={32} /> : '–' : <Num value={data[name]} />}
          </p>
        </div>
      ))}
      {data === undefined ? null : (
        <MoreMenu
          source={sourceOf(texts.now, 'now', () => [{ visitors_5m: data.visitors_5m, events_5m: data.events_5m }])}
        />
      )}
    </section>
  )
}

function Minutes({ data, answeredAt, isLoading, zone, sourceOf }: PartProps & { answeredAt: number; zone: string }) {
  const [isTable, setTable] = useState(false)
  useShortcut('t', messages.more.showTable, () => setTable(data !== undefined))
  // The minutes end with the answer, however long the next one is waited for.
  const now = useMemo(() => serverNow() - (answeredAt === 0 ? 0 : Date.now() - answeredAt), [answeredAt])
  const columns = (data?.per_minute ?? []).map((value, at, all) => ({
    ms: now - (all.length - at) * minuteMs,
    label: formatTime(now - (all.length - at - 1) * minuteMs, zone),
    value,
  }))
  const source = sourceOf(texts.perMinute, 'per-minute', () =>
    columns.map(({ ms, value }) => ({ timestamp: formatIso(Math.floor(ms / 1000) * 1000, zone), events: value })),
  )
  return (
    <section class="live-minutes" aria-label={texts.perMinute}>
      <header class="section-head">
        <h2 class="label grow">
          {texts.perMinute}
          {columns.length === 0 ? null : ` · ${texts.highest(Math.max(...columns.map(({ value }) => value)))}`}
        </h2>
        {data === undefined ? null : <MoreMenu source={source} />}
      </header>
      {isLoading ? <Skeleton height={96} /> : null}
      {isTable ? <TableDialog source={source} onClose={() => setTable(false)} /> : null}
      {columns.length === 0 ? null : (
        <Columns
          caption={texts.perMinuteCaption(columns.at(-1)?.value ?? 0, Math.max(...columns.map(({ value }) => value)))}
          columns={columns}
          describe={({ label, value }) => texts.minute(label, value)}
          ends={[...texts.ends]}
        />
      )}
    </section>
  )
}

function NoEvents() {
  const { filters, hrefOf } = useView()
  const { environment } = useViewQueries()
  const site = useSite()
  if (filters.length > 0) {
    return <EmptyState title={texts.none} why={texts.noneFiltered} action={<ClearFilters />} />
  }
  const lastAt = site.last_event_at
  // The record of the site tells of all environments.
  if (lastAt !== null && lastAt > serverNow() - feedMs && environment !== 'all')
    return (
      <EmptyState
        title={texts.none}
        why={texts.elsewhere(formatRelative(lastAt, serverNow()))}
        action={<AllEnvironments />}
      />
    )
  const last = lastAt === null ? undefined : formatRelative(lastAt, serverNow())
  return (
    <EmptyState
      title={texts.none}
      why={texts.noneWhy(last)}
      action={
        last === undefined ? undefined : (
          <a class="button" href={hrefOf({ range: 'all' }, 'events')}>
            {texts.toEvents}
          </a>
        )
      }
    />
  )
}
