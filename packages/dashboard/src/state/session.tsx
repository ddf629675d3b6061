import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { grants, type Scope } from '@sluice/contracts/scopes'
import type { SessionResource } from '@sluice/contracts/session'
import type { SiteResource } from '@sluice/contracts/sites'

/** The session; the app provides it once it is known. */
export const SessionContext = createContext<SessionResource | undefined>(undefined)
/** The site of the page; the app provides it on the pages of a site. */
export const SiteContext = createContext<SiteResource | undefined>(undefined)

/** Who is signed in. */
export function useSession(): SessionResource {
  const session = useContext(SessionContext)
  if (session === undefined) throw new Error('No session')
  return session
}

/** The site of the page. Throws on pages without one. */
export function useSite(): SiteResource {
  const site = useContext(SiteContext)
  if (site === undefined) throw new Error('No site')
  return site
}

/** The time zone of the page's site, an IANA name; undefined for a key that may not read the site's record. */
export function useSiteZone(): string | undefined {
  const site = useContext(SiteContext)
  return useMay('stats:read') ? site?.timezone : undefined
}

/** Whether the session's key holds one of these scopes. */
export function useMay(...required: Scope[]): boolean {
  const { scopes } = useSession()
  return required.some((scope) => grants(scopes, scope))
}
