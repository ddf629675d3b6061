import { grants, type Scope } from '@sluice/contracts/scopes'
import { messages } from '../messages/en.ts'
import { useView } from '../state/hooks.ts'
import type { SitePage } from '../state/route.ts'
import { sitePath } from '../state/route.ts'
import { useMay, useSession } from '../state/session.tsx'
import { Icon, type IconName } from '../ui/icon.tsx'

/** A page in the navigation, with the scopes of which a key needs one. */
export interface Destination {
  page: SitePage | 'keys'
  icon: IconName
  scopes: readonly [Scope, ...Scope[]]
  /** The second key of its shortcut, after G. */
  letter: string
}

/** The pages in the groups of the rail. */
export const destinations: Readonly<Record<'analyses' | 'operations' | 'settings', readonly Destination[]>> = {
  analyses: [
    { page: 'overview', icon: 'chart-line', scopes: ['stats:read'], letter: 'o' },
    { page: 'live', icon: 'radio', scopes: ['stats:read'], letter: 'l' },
    { page: 'events', icon: 'list', scopes: ['stats:read'], letter: 'e' },
    { page: 'funnels', icon: 'funnel', scopes: ['stats:read'], letter: 'f' },
    { page: 'retention', icon: 'grid-3x3', scopes: ['stats:read', 'cohorts:read'], letter: 'r' },
    { page: 'cohorts', icon: 'users', scopes: ['cohorts:read'], letter: 'c' },
  ],
  operations: [
    { page: 'imports', icon: 'file-up', scopes: ['events:write'], letter: 'i' },
    { page: 'exports', icon: 'file-down', scopes: ['stats:read', 'cohorts:read'], letter: 'x' },
    { page: 'webhooks', icon: 'webhook', scopes: ['admin'], letter: 'w' },
    { page: 'alerts', icon: 'bell', scopes: ['admin'], letter: 'a' },
  ],
  settings: [
    { page: 'settings', icon: 'settings', scopes: ['stats:read'], letter: 's' },
    { page: 'keys', icon: 'key-round', scopes: ['admin'], letter: 'k' },
  ],
}

/** The pages of all groups, in their order. */
export const allDestinations: readonly Destination[] = Object.values(destinations).flat()

/** The first page of a site that the session may open; undefined for a key that may open none. */
export function useFirstPage(): SitePage | undefined {
  const { scopes: held } = useSession()
  return allDestinations
    .filter(({ scopes }) => scopes.some((scope) => grants(held, scope)))
    .map(({ page }) => page)
    .find((page) => page !== 'keys')
}

/** The address of a destination; the range, environment and filters of the view go along between pages of a site. */
export function useHrefOf(siteId: string | undefined): (page: Destination['page']) => string | undefined {
  const view = useView()
  return (page) => {
    if (page === 'keys') return '/settings/keys'
    if (siteId === undefined) return undefined
    return view.siteId === siteId ? view.hrefOf({}, page) : sitePath(siteId, page)
  }
}

/**
 * A link of the navigation; without the scope it shows a lock, and its page says what is missing. Without an address,
 * as long as no site is known, it holds its place.
 */
export function NavigationLink({
  destination,
  href,
  isCurrent,
  onFollow,
}: {
  destination: Destination
  href: string | undefined
  isCurrent: boolean
  onFollow: (() => void) | undefined
}) {
  const isAllowed = useMay(...destination.scopes)
  const lock = messages.nav.locked(destination.scopes[0])
  return (
    // An element without `href` is not a link, also for the keyboard and screen readers.
    <a
      class="nav-link"
      href={href}
      aria-current={isCurrent ? 'page' : undefined}
      title={isAllowed ? undefined : lock}
      onClick={onFollow}
    >
      <Icon name={destination.icon} />
      <span class="grow">{messages.nav[destination.page]}</span>
      {isAllowed ? null : <Icon name="lock" size={12} />}
    </a>
  )
}
