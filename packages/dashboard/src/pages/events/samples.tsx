import { useEffect, useRef } from 'preact/hooks'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { serverNow } from '../../api/client.ts'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { soonMs } from '../../api/range-refresh.ts'
import { requestOf } from '../../api/request.ts'
import { fileNameOf } from '../../format/csv.ts'
import { relativeOf } from '../../format/curl.ts'
import { formatDateSeconds, formatRelative, formatZoned } from '../../format/dates.ts'
import { eventKeyOf, eventRows, fieldsOf, shortUrl } from '../../format/events.ts'
import { valueLabel } from '../../format/sentences.ts'
import { ClearFilters } from '../../page-components/clear-filters.tsx'
import { WiderView } from '../../page-components/wider-view.tsx'
import { usePageParameter, useView, useViewQueries } from '../../state/hooks.ts'
import { datesOf } from '../../state/range.ts'
import { useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { EmptyState, ErrorPanel, SkeletonRows } from '../../ui/states.tsx'
import { DataTable } from '../../ui/table.tsx'
import { texts } from './messages.ts'
import { OpenedEvent } from './opened-event.tsx'

const pageSize = 50

/** What a table's cell shows of an event's properties. */
function summaryOf(event: StoredEvent): string {
  return fieldsOf(event, 'UTC')
    .filter(({ name }) => name.startsWith('properties.'))
    .map(({ name, value }) => `${name.slice('properties.'.length)}: ${value}`)
    .join(', ')
}

/** The query for a page of the view's events. */
function useSamples() {
  const { siteId, filters, range } = useView()
  const { bounds, environment, zone } = useViewQueries()
  const [before, setBefore] = usePageParameter('before')
  const viewQuery = {
    site_id: siteId,
    start_date: bounds.startMs,
    end_date: bounds.endMs,
    environment,
    ...(filters.length === 0 ? {} : { filter: filters }),
  }
  // A position in one list means nothing in another. The Back button restores the list together with its position.
  const list = JSON.stringify([siteId, environment, filters, range, zone])
  const last = useRef({ list, before })
  useEffect(() => {
    if (last.current.list !== list && before !== undefined && before === last.current.before) setBefore(undefined, true)
    last.current = { list, before }
  }, [list, before])
  const query = { ...viewQuery, limit: pageSize, ...(before === undefined ? {} : { before }) }
  return { query, before, setBefore }
}

/** The events themselves, newest first, page by page. A row opens all its fields. */
export function Samples() {
  const { siteId } = useView()
  const { zone, bounds, dates } = useViewQueries()
  const { query, before, setBefore } = useSamples()
  const [open, setOpen] = usePageParameter('event')
  // The answer does not tell how complete it is.
  const found = useApi('events', { query }, { refetchMs: (answer) => (answer === undefined ? false : soonMs) })
  const { data } = found
  const source = useFromAnswer(found, ({ events }) => {
    const request = requestOf('events', { query })
    const { from, to } = datesOf(bounds, zone)
    return {
      label: texts.samples,
      request,
      // A later page begins at a fixed event, which relative dates would move past.
      relativeRequest: before === undefined ? relativeOf(request, dates) : undefined,
      rows: () => eventRows(events, zone),
      fileName: fileNameOf([siteId, 'events', from, to], 'csv'),
    }
  })
  const next = data?.next_before ?? undefined
  return (
    <section aria-labelledby="samples-title" class="stack-small">
      <header class="section-head">
        <h2 id="samples-title" class="grow">
          {texts.samples}
        </h2>
        <MoreMenu source={source} />
      </header>
      <ErrorPanel error={found.error} onRetry={found.retry} />
      {found.isLoading ? <SkeletonRows rows={10} /> : null}
      {data === undefined ? null : (
        <div class={`sample-list${found.isPlaceholderData ? ' old refreshing' : ''}`}>
          <DataTable
            caption={texts.samples}
            columns={[
              {
                id: 'type',
                header: texts.type,
                cell: (row) => <Cell text={row.event_type} />,
              },
              {
                id: 'time',
                header: texts.time,
                cell: (row) => (
                  <time class="sample-time" title={formatZoned(row.timestamp, zone)}>
                    {formatDateSeconds(row.timestamp, zone)}
                  </time>
                ),
              },
              { id: 'place', header: texts.place, cell: (row) => <Cell text={shortUrl(row)} /> },
              {
                id: 'user',
                header: texts.user,
                cell: (row) => <Cell text={row.user_id ?? row.anonymous_id ?? row.session_id ?? ''} />,
              },
              {
                id: 'country',
                header: texts.country,
                cell: (row) => <Cell text={row.country === undefined ? '' : valueLabel('country', row.country)} />,
              },
              { id: 'data', header: texts.data, cell: (row) => <Cell text={summaryOf(row)} /> },
            ]}
            rows={data.events}
            rowKey={eventKeyOf}
            onOpen={(event) => setOpen(eventKeyOf(event))}
            empty={<NoEvents />}
          />
        </div>
      )}
      {before === undefined && next === undefined ? null : (
        <nav class="row pages" aria-label={texts.samples}>
          {before === undefined ? null : (
            <Button icon="arrow-left" onClick={() => setBefore(undefined)}>
              {texts.newest}
            </Button>
          )}
          {next === undefined ? null : (
            <Button
              icon="arrow-right"
              isBusy={found.isPlaceholderData}
              onClick={() => {
                setBefore(next)
                document.querySelector('#samples-title')?.scrollIntoView({ block: 'center' })
              }}
            >
              {texts.older}
            </Button>
          )}
        </nav>
      )}
      {open === undefined ? null : (
        <OpenedEvent key={open} eventKey={open} listed={data?.events ?? []} onClose={() => setOpen(undefined)} />
      )}
    </section>
  )
}

const Cell = ({ text }: { text: string }) => (
  <span class="sample-cell" title={text}>
    <bdi>{text}</bdi>
  </span>
)

function NoEvents() {
  const { filters, hrefOf } = useView()
  const site = useSite()
  const last = site.last_event_at === null ? undefined : formatRelative(site.last_event_at, serverNow())
  const action =
    last === undefined ? (
      <a class="button" href={hrefOf({}, 'live')}>
        {texts.toLive}
      </a>
    ) : filters.length > 0 ? (
      <ClearFilters />
    ) : (
      <WiderView />
    )
  return <EmptyState title={texts.none} why={texts.noneWhy(last)} action={action} />
}
