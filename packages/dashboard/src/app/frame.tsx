import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks'
import type { SiteResource } from '@sluice/contracts/sites'
import { allSitesQuery } from '../api/all-sites-query.ts'
import { type ApiError, isPassing } from '../api/error.ts'
import { useApi } from '../api/hooks.ts'
import { knownZone } from '../format/dates.ts'
import { messages } from '../messages/en.ts'
import { AddressProblems } from '../page-components/address-problems.tsx'
import { useView, useWholeLocation } from '../state/hooks.ts'
import { type Route, routeOf, type SitePage } from '../state/route.ts'
import { SiteContext, useMay, useSession } from '../state/session.tsx'
import { remember, remembered } from '../state/storage.ts'
import { announce } from '../ui/announce.tsx'
import { isGuarded } from '../ui/leave-guard.ts'
import { EmptyState, ErrorPanel, SkeletonRows } from '../ui/states.tsx'
import { BottomBar } from './bottom-bar.tsx'
import { ErrorBoundary } from './error-boundary.tsx'
import { allDestinations, useFirstPage } from './navigation.tsx'
import { ChooseSite, FirstEvent, NameSite, pages } from './pages.ts'
import { Rail } from './rail.tsx'
import { Shortcuts } from './shortcuts.tsx'
import { StickyBar } from './sticky-bar.tsx'

/**
 * The site of the navigation: that of the address, else the last one, else the first of the session's. A key that may
 * neither list sites nor is bound to some has the last one alone.
 */
function useNavigationSite(route: Route): string | undefined {
  const session = useSession()
  const current = 'siteId' in route ? route.siteId : undefined
  const last = remembered('site')
  const mayRead = useMay('stats:read')
  const sites = useApi('listSites', current === undefined && mayRead ? allSitesQuery : null)
  useEffect(() => {
    if (current !== undefined) remember('site', current)
  }, [current])
  if (current !== undefined) return current
  if (!mayRead && session.site_ids === null) return last
  const known = sites.data?.sites.map((site) => site.site_id) ?? session.site_ids ?? []
  return last !== undefined && known.includes(last) ? last : known[0]
}

/** Gives the document a title. */
function useTitle(...parts: string[]): void {
  const title = [...parts, 'Sluice'].join(' · ')
  // A layout effect, so that it runs before the effects of pages, which may set a more specific title.
  useLayoutEffect(() => {
    document.title = title
  }, [title])
}

const AllSites = pages.sites

/** Everything around a page: navigation, sticky bar, shortcuts, and the page of the address itself. */
export function Frame() {
  const { path, url, wasPush } = useWholeLocation()
  const route = routeOf(path)
  const siteId = useNavigationSite(route)
  // After Back and Forward, the browser itself restores the scroll position.
  useLayoutEffect(() => {
    if (wasPush) scrollTo(0, 0)
  }, [path])
  // After the effects that give the title: those of a page whose script is still loaded may give a longer one later.
  useEffect(() => {
    if (wasPush) announce(document.title, 'title')
  }, [path])
  return (
    <div class="frame">
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault()
          document.querySelector<HTMLElement>('#main')?.focus()
        }}
      >
        {messages.nav.skip}
      </a>
      <Rail route={route} siteId={siteId} />
      <div class="sheet">
        <ErrorBoundary resetKey={url}>
          {'siteId' in route ? (
            <SitePageOf key={route.siteId} page={route.page} siteId={route.siteId} />
          ) : (
            <OtherPage page={route.page} />
          )}
        </ErrorBoundary>
      </div>
      <BottomBar route={route} siteId={siteId} />
      <Shortcuts siteId={siteId} />
    </div>
  )
}

function OtherPage({ page }: { page: Exclude<Route, { siteId: string }>['page'] }) {
  const isAllowed = useMay('admin')
  useTitle(messages.nav[page])
  if (page === 'unknown') {
    return (
      <Main>
        <EmptyState
          isPage
          title={messages.errors.unknownPage}
          why={messages.errors.unknownPageWhy}
          action={<a href="/">{messages.errors.toSites}</a>}
        />
      </Main>
    )
  }
  if (page === 'keys' && !isAllowed)
    return (
      <Main>
        <MissingScope scope="admin" />
      </Main>
    )
  if (page === 'sites')
    return (
      <Main>
        <Sites />
      </Main>
    )
  const Page = pages[page]
  return <Main>{Page === undefined ? null : <Page key={page} />}</Main>
}

/**
 * All sites; without any, the way to the first one. A key that may not list sites chooses one for the pages that it may
 * open.
 */
function Sites() {
  const mayRead = useMay('stats:read')
  const firstPage = useFirstPage()
  const sites = useApi('listSites', mayRead ? allSitesQuery : null)
  if (!mayRead) return firstPage === undefined ? <MissingScope scope="stats:read" /> : <ChooseSite page={firstPage} />
  if (sites.data?.total === 0) return <NameSite />
  if (sites.error !== undefined && sites.data === undefined)
    return <ErrorPanel error={sites.error} onRetry={sites.retry} />
  return sites.isLoading || AllSites === undefined ? <SkeletonRows rows={6} /> : <AllSites />
}

const Main = ({ children }: { children: ComponentChildren }) => (
  <main id="main" class="page" tabIndex={-1}>
    {children}
  </main>
)

/** Said in place of a page whose operations the session's key does not grant. */
function MissingScope({ scope }: { scope: string }) {
  const { name } = useSession()
  return (
    <EmptyState
      isPage
      icon="lock"
      title={messages.errors.missingScope(scope)}
      why={messages.errors.missingScopeWhy(name)}
    />
  )
}

/** How often the site's record is refetched, for the time of its last event. */
const siteRefreshMs = 60_000

/** Pages of what Postgres holds. They work while the site's record can't be read, because ClickHouse fails. */
const worksWithoutSite = (page: SitePage, failure: ApiError): boolean =>
  ['imports', 'webhooks', 'alerts'].includes(page) && (isPassing(failure) || failure.status >= 500)

const UnknownSite = ({ siteId }: { siteId: string }) => (
  <EmptyState
    isPage
    title={messages.errors.unknownSite(siteId)}
    why={messages.errors.unknownSiteWhy}
    action={<a href="/">{messages.errors.toSites}</a>}
  />
)

/**
 * The site's record; `known` has UTC in place of a time zone that the browser does not know. `failure` tells why the
 * record is missing, or that the site was deleted.
 */
function useSiteRecord(siteId: string, mayRead: boolean) {
  const record = useApi('getSite', mayRead ? { params: { site_id: siteId } } : null, { refetchMs: siteRefreshMs })
  const { data } = record
  const known = useMemo(() => data && { ...data, timezone: knownZone(data.timezone) }, [data])
  // A page that shows what would be lost, such as the id of the erasure of its site, stays until it is left.
  const isGone = record.error?.status === 404 && !isGuarded()
  return { record, known, failure: data === undefined || isGone ? record.error : undefined }
}

/** Said on the pages of a site whose time zone the browser does not know. */
function UnknownZone({ zone }: { zone: string | undefined }) {
  if (zone === undefined || knownZone(zone) === zone) return null
  return <p class="muted without-site">{messages.errors.unknownZone(zone)}</p>
}

function SitePageOf({ page, siteId }: { page: SitePage; siteId: string }) {
  const { problems } = useView()
  const mayRead = useMay('stats:read')
  const { record, known, failure } = useSiteRecord(siteId, mayRead)
  useTitle(messages.nav[page], (record.data?.name ?? '') || siteId)
  const destination = allDestinations.find((each) => each.page === page)
  const isAllowed = useMay(...(destination?.scopes ?? ['stats:read']))
  if (destination !== undefined && !isAllowed)
    return (
      <Main>
        <MissingScope scope={destination.scopes[0]} />
      </Main>
    )
  const isWithoutSite = failure !== undefined && worksWithoutSite(page, failure)
  if (failure !== undefined && !isWithoutSite)
    return (
      <Main>
        {failure.status === 404 ? (
          <UnknownSite siteId={siteId} />
        ) : (
          <ErrorPanel error={failure} onRetry={record.retry} />
        )}
      </Main>
    )
  // A key that can't read the site's record can still import into it.
  const site = mayRead && !isWithoutSite ? known : unreadable(siteId)
  const Page = pages[page]
  return (
    <SiteContext.Provider value={site}>
      <StickyBar page={page} />
      <Main>
        <AddressProblems problems={problems} />
        <ErrorPanel error={failure} onRetry={record.retry} />
        {isWithoutSite ? <p class="muted without-site">{messages.errors.utcMeanwhile}</p> : null}
        <UnknownZone zone={record.data?.timezone} />
        {site === undefined || Page === undefined ? (
          <SkeletonRows rows={6} />
        ) : page === 'overview' ? (
          <OverviewOrFirst site={site}>
            <Page key={page} />
          </OverviewOrFirst>
        ) : (
          <Page key={page} />
        )}
      </Main>
    </SiteContext.Provider>
  )
}

/** The Overview; for a site without events, how to send the first one, until its reader goes on. */
function OverviewOrFirst({ site, children }: { site: SiteResource; children: ComponentChildren }) {
  const [isFirst, setFirst] = useState(site.first_event_at === null)
  if (!isFirst) return <>{children}</>
  return <FirstEvent onDone={() => setFirst(false)} />
}

const unreadable = (siteId: string) => ({
  site_id: siteId,
  name: siteId,
  // The site's time zone is unknown, so its times are shown in UTC.
  timezone: 'UTC',
  conversion_event: null,
  retention_days: null,
  created_at: 0,
  first_event_at: null,
  last_event_at: null,
})
