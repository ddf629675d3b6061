import { isOneOf } from '@sluice/contracts/conditions'

/** Pages of a site, as the last part of their path; the Overview has none. */
const sitePages = [
  'overview',
  'live',
  'events',
  'funnels',
  'retention',
  'cohorts',
  'imports',
  'exports',
  'webhooks',
  'alerts',
  'settings',
] as const
export type SitePage = (typeof sitePages)[number]

/** Where the address leads. */
export type Route = { page: 'sites' | 'signin' | 'keys' | 'session' | 'unknown' } | { page: SitePage; siteId: string }

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** The route of a path; `unknown` for others. */
export function routeOf(path: string): Route {
  const [first, second, third, ...rest] = path.split('/').filter((part) => part !== '')
  if (rest.length > 0) return { page: 'unknown' }
  if (first === undefined) return { page: 'sites' }
  if (first === 'signin' && second === undefined) return { page: 'signin' }
  if (first === 'settings' && third === undefined && isOneOf(['keys', 'session'], second)) return { page: second }
  const siteId = second === undefined ? undefined : decoded(second)
  if (first !== 'sites' || siteId === undefined) return { page: 'unknown' }
  if (third === undefined) return { page: 'overview', siteId }
  return isOneOf(sitePages, third) && third !== 'overview' ? { page: third, siteId } : { page: 'unknown' }
}

/** The path of a site's page. */
export function sitePath(siteId: string, page: SitePage = 'overview'): string {
  const base = `/sites/${encodeURIComponent(siteId)}`
  return page === 'overview' ? base : `${base}/${page}`
}
