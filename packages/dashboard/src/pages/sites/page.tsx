import { type ReadonlySignal, useComputed, useSignal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Environment } from '@sluice/contracts/scopes'
import type { SiteResource } from '@sluice/contracts/sites'
import type { StatsResult } from '@sluice/contracts/stats'
import { allSitesQuery } from '../../api/all-sites-query.ts'
import { call } from '../../api/client.ts'
import { ApiError, failureOf } from '../../api/error.ts'
import { useApi, useCachedQuery } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import type { StatsQuery } from '../../api/wire.ts'
import { fileNameOf } from '../../format/csv.ts'
import { knownZone } from '../../format/dates.ts'
import { messages } from '../../messages/en.ts'
import { ListEnd } from '../../page-components/list-end.tsx'
import { isFound, ListSearch } from '../../page-components/list-search.tsx'
import { sitePath } from '../../state/route.ts'
import { useMay, useSession } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { useOnScreen } from '../../ui/in-view.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num, Unknown } from '../../ui/numbers.tsx'
import { EmptyState, ErrorPanel, PageTitle, Skeleton, SkeletonRows } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import { AddSite } from './add-site.tsx'
import { texts } from './messages.ts'
import { Sparkline } from './sparkline.tsx'

/** Entries of a batch of queries. */
const batchSize = 20
const refreshMs = 60_000

/** The visitors of a site, or why they are not known. */
type Answer = StatsResult | ApiError
type Answers = ReadonlyMap<string, Answer>

const resultOf = (answer: Answer | undefined): StatsResult | undefined =>
  answer instanceof ApiError ? undefined : answer

/** The query names its environment, so that its copied command gives the same number with another key. */
const queryOf = (siteId: string, environment: Environment): StatsQuery => ({
  site_id: siteId,
  metric: 'visitors',
  group_by: 'hour',
  environment,
})
const dayOf = (siteId: string, environment: Environment): StatsQuery => ({
  ...queryOf(siteId, environment),
  period: '24h',
})

/** All sites, with the visitors of their last 24 hours. */
export default function Page() {
  const sites = useApi('listSites', allSitesQuery, { refetchMs: refreshMs })
  const { site_ids: boundTo } = useSession()
  // A key that is bound to sites may add none.
  const mayAdd = useMay('admin') && boundTo === null
  const [isAdding, setAdding] = useState(false)
  const [search, setSearch] = useState('')
  const [answers, setAnswers] = useState<Answers>(new Map())
  // A signal, because the page with its rows does not depend on it.
  const onScreen = useSignal<ReadonlySet<string>>(new Set())
  // Ranked by their visitors, the sites that were not on the screen are queried too: one group after the other.
  const [isRanked, setRanked] = useState(false)
  const records = sites.data?.sites ?? []
  const shown = records.filter((site) => isFound(search, site.site_id, site.name))
  const groups = groupsOf(records.map((site) => site.site_id))
  const unanswered = groups.findIndex((ids) => ids.some((id) => !answers.has(id)))
  const add = mayAdd ? (
    <Button kind="primary" icon="plus" onClick={() => setAdding(true)}>
      {texts.add}
    </Button>
  ) : undefined
  return (
    <>
      <PageTitle
        title={messages.nav.sites}
        sentence={sites.data === undefined ? undefined : texts.sentence(sites.data.total)}
        actions={
          <>
            {sites.data === undefined ? null : (
              <MoreMenu
                source={listSource(messages.nav.sites, ['listSites', allSitesQuery], records, { fileParts: ['sites'] })}
              />
            )}
            {records.length > 0 ? add : null}
          </>
        }
      />
      <ErrorPanel error={sites.error} onRetry={sites.retry} />
      {sites.isLoading ? <SkeletonRows rows={8} /> : null}
      {groups.map((ids, at) => (
        <GroupVisitors
          key={ids.join()}
          ids={ids}
          onScreen={onScreen}
          isRanked={isRanked && (unanswered === -1 || at <= unanswered)}
          onAnswer={(group) => setAnswers((before) => new Map([...before, ...group]))}
        />
      ))}
      {sites.data === undefined ? null : (
        <div class="stack">
          <ListSearch label={texts.search} rows={records.length} value={search} onInput={setSearch} />
          <DataTable
            caption={messages.nav.sites}
            columns={columnsOf(answers, {
              onScreenChange: (id, isOnScreen) => {
                if (isOnScreen === onScreen.value.has(id)) return
                const others = [...onScreen.value].filter((each) => each !== id)
                onScreen.value = new Set(isOnScreen ? [...others, id] : others)
              },
              onRank: () => setRanked(true),
            })}
            rows={shown}
            rowKey={(site) => site.site_id}
            empty={
              records.length === 0 ? (
                <EmptyState icon="globe" title={texts.none} why={texts.noneWhy} action={add} />
              ) : (
                <EmptyState title={texts.noMatch(search)} />
              )
            }
          />
          <ListEnd listed={records.length} total={sites.data.total} />
        </div>
      )}
      {isAdding ? <AddSite onClose={() => setAdding(false)} /> : null}
    </>
  )
}

function groupsOf(ids: readonly string[]): string[][] {
  const groups: string[][] = []
  for (let at = 0; at < ids.length; at += batchSize) groups.push(ids.slice(at, at + batchSize))
  return groups
}

interface GroupProps {
  ids: readonly string[]
  /** The sites that are on the screen. While one of the group is, the group's numbers are fetched and refetched. */
  onScreen: ReadonlySignal<ReadonlySet<string>>
  /** Whether their numbers are fetched for the order of all sites. */
  isRanked: boolean
  onAnswer: (answers: Answers) => void
}

/** Fetches the visitors of some sites at once. */
function GroupVisitors({ ids, onScreen, isRanked, onAnswer }: GroupProps) {
  const { environment } = useSession()
  const { value: isOnScreen } = useComputed(() => ids.some((id) => onScreen.value.has(id)))
  // The answer stays after the group has left the screen, and so does its error.
  const isSeen = useRef(false)
  isSeen.current ||= isOnScreen
  const group = useCachedQuery(
    isSeen.current || isRanked ? ['site-visitors', ids, environment] : null,
    async (signal) => {
      const queries = ids.map((id) => dayOf(id, environment))
      const { results } = await call('statsBatch', { body: { queries } }, signal)
      return new Map(
        results.map((entry, at) => [ids[at] ?? '', entry.success ? entry.data : failureOf(entry)] as const),
      )
    },
    { refetchMs: isOnScreen ? refreshMs : false },
  )
  useEffect(() => {
    if (group.data !== undefined) onAnswer(group.data)
  }, [group.data])
  useEffect(() => {
    // After a failure, the query is repeated by its own schedule.
    if (!isOnScreen || group.error !== undefined) return
    if (group.answeredAt > 0 && Date.now() - group.answeredAt >= refreshMs) group.retry()
  }, [isOnScreen])
  return <ErrorPanel error={group.error} onRetry={group.retry} />
}

interface VisitorsProps extends Pick<ColumnEvents, 'onScreenChange'> {
  id: string
  answer: Answer | undefined
}

/** A cell that tells whether it is on the screen. */
function Visitors({ id, onScreenChange, answer }: VisitorsProps) {
  const { environment } = useSession()
  const element = useOnScreen((isOnScreen) => onScreenChange(id, isOnScreen))
  return (
    <span ref={element} class="site-number">
      {answer === undefined ? (
        <Skeleton width={40} height={14} />
      ) : answer instanceof ApiError ? (
        <Unknown why={answer.message} />
      ) : (
        <>
          <Num value={answer.value} isEstimated={answer.estimated === true} name={id} />
          <MoreMenu
            source={{
              label: `${messages.metrics.visitors}, ${id}`,
              request: requestOf('stats', {
                query: { ...queryOf(id, environment), start_date: answer.start_date, end_date: answer.end_date },
              }),
              relativeRequest: requestOf('stats', { query: dayOf(id, environment) }),
              rows: () => [{ site_id: id, metric: 'visitors', value: answer.value }],
              fileName: fileNameOf([id, 'visitors'], 'csv'),
              value: answer.value,
            }}
          />
        </>
      )}
    </span>
  )
}

interface ColumnEvents {
  onScreenChange: (id: string, isOnScreen: boolean) => void
  onRank: () => void
}

const columnsOf = (answers: Answers, { onScreenChange, onRank }: ColumnEvents): Column<SiteResource>[] => [
  {
    id: 'site_id',
    header: texts.columns.site,
    cell: (site) => (
      <a href={sitePath(site.site_id)} class="site-link">
        <bdi>{site.name}</bdi>
        {site.name === site.site_id ? null : (
          <span class="muted">
            {' '}
            <bdi>{site.site_id}</bdi>
          </span>
        )}
      </a>
    ),
    sort: (site) => site.name.toLowerCase(),
  },
  {
    id: 'visitors',
    header: texts.columns.visitors,
    align: 'end',
    cell: (site) => <Visitors id={site.site_id} onScreenChange={onScreenChange} answer={answers.get(site.site_id)} />,
    sort: (site) => resultOf(answers.get(site.site_id))?.value,
    onSort: onRank,
  },
  {
    id: 'trend',
    header: texts.columns.trend,
    cell: (site) => {
      const answer = answers.get(site.site_id)
      if (answer instanceof ApiError) return <span class="muted">–</span>
      const values = answer?.breakdown?.map((each) => each.value)
      return values === undefined ? (
        <Skeleton width={120} height={14} />
      ) : (
        <Sparkline values={values} label={texts.trendOf(site.site_id, Math.max(0, ...values))} />
      )
    },
  },
  {
    id: 'last_event_at',
    header: texts.columns.last,
    cell: (site) =>
      site.last_event_at === null ? (
        <span class="muted">{texts.noEvents}</span>
      ) : (
        <Ago ms={site.last_event_at} zone={knownZone(site.timezone)} />
      ),
    sort: (site) => site.last_event_at ?? 0,
  },
  { id: 'timezone', header: texts.columns.zone, cell: (site) => site.timezone, sort: (site) => site.timezone },
]
