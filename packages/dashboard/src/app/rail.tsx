import { allSitesQuery } from '../api/all-sites-query.ts'
import { useApi } from '../api/hooks.ts'
import { messages } from '../messages/en.ts'
import { type Route, sitePath } from '../state/route.ts'
import { useMay, useSession } from '../state/session.tsx'
import { Icon } from '../ui/icon.tsx'
import { Popover } from '../ui/popover.tsx'
import { ErrorPanel, SkeletonRows } from '../ui/states.tsx'
import { Logo } from './logo.tsx'
import { type Destination, destinations, NavigationLink, useFirstPage, useHrefOf } from './navigation.tsx'

export interface NavigationProps {
  route: Route
  siteId: string | undefined
}

/** The links of a group of pages. `onFollow` is called when one is followed. */
export function Group({
  group,
  route,
  siteId,
  onFollow,
}: NavigationProps & { group: readonly Destination[]; onFollow?: () => void }) {
  const hrefOf = useHrefOf(siteId)
  return (
    <ul>
      {group.map((destination) => (
        <li key={destination.page}>
          <NavigationLink
            destination={destination}
            href={hrefOf(destination.page)}
            isCurrent={route.page === destination.page}
            onFollow={onFollow}
          />
        </li>
      ))}
    </ul>
  )
}

/** The navigation of wide screens. */
export function Rail({ route, siteId }: NavigationProps) {
  return (
    <header class="rail">
      <a href="/" class="home" aria-label="Sluice">
        <Logo />
      </a>
      <SiteSwitcher siteId={siteId} />
      <nav aria-label={messages.nav.main}>
        <Group group={destinations.analyses} route={route} siteId={siteId} />
        <Group group={destinations.operations} route={route} siteId={siteId} />
        <p class="label nav-label">{messages.nav.settingsGroup}</p>
        <Group group={destinations.settings} route={route} siteId={siteId} />
      </nav>
      <RailFoot route={route} />
    </header>
  )
}

/** The links to the documentation and to the session. */
export function RailFoot({ route }: { route: Route }) {
  const { name } = useSession()
  return (
    <div class="rail-foot">
      <a class="nav-link" href="/docs" target="_blank" rel="noreferrer">
        <Icon name="book-open" />
        <span class="grow">{messages.nav.help}</span>
        <Icon name="external-link" size={12} />
      </a>
      <a class="nav-link" href="/settings/session" aria-current={route.page === 'session' ? 'page' : undefined}>
        <Icon name="user" />
        <span class="grow truncate">
          {messages.nav.session}: <bdi>{name}</bdi>
        </span>
      </a>
    </div>
  )
}

function SiteSwitcher({ siteId }: { siteId: string | undefined }) {
  const mayRead = useMay('stats:read')
  const site = useApi('getSite', mayRead && siteId !== undefined ? { params: { site_id: siteId } } : null, {
    keepsPreviousData: false,
  })
  // Holds the place until the sites are known.
  if (siteId === undefined) return <div class="switcher" aria-hidden="true" />
  return (
    <Popover
      kind="dialog"
      label={messages.nav.switchSite}
      button={(attributes) => (
        <button type="button" class="switcher" title={siteId} {...attributes}>
          <span class="hidden-text">{messages.nav.switchSite}: </span>
          <bdi class="truncate grow">{(site.data?.name ?? '') || siteId}</bdi>
          <Icon name="chevrons-up-down" size={14} />
        </button>
      )}
    >
      {(close) => <SiteList siteId={siteId} onFollow={close} />}
    </Popover>
  )
}

/** Sites in the switcher; more are found on the page of all sites. */
const switcherSitesMax = 100

function SiteList({ siteId, onFollow }: { siteId: string; onFollow: () => void }) {
  const mayRead = useMay('stats:read')
  const { site_ids: boundTo } = useSession()
  const firstPage = useFirstPage()
  const sites = useApi('listSites', mayRead ? allSitesQuery : null)
  const listed = mayRead ? sites.data?.sites : (boundTo ?? [siteId]).map((id) => ({ site_id: id, name: '' }))
  return (
    <div class="site-list">
      {sites.isLoading ? <SkeletonRows rows={3} /> : null}
      <ErrorPanel error={sites.error} onRetry={sites.retry} />
      <ul>
        {listed?.slice(0, switcherSitesMax).map((site) => {
          const { site_id: id } = site
          const name = site.name || id
          return (
            <li key={id}>
              <a
                class="menu-item"
                href={sitePath(id, firstPage)}
                aria-current={id === siteId ? 'true' : undefined}
                onClick={onFollow}
              >
                <span class="site-names">
                  <bdi>{name}</bdi>
                  {name === id ? null : <bdi class="muted">{id}</bdi>}
                </span>
                {id === siteId ? <Icon name="check" /> : null}
              </a>
            </li>
          )
        })}
      </ul>
      <a class="menu-item" href="/" onClick={onFollow}>
        {messages.nav.allSites}
      </a>
    </div>
  )
}
