/** Pages of a site by the names of their links, with the last part of their path. */
export const sitePages = {
  Overview: '',
  Live: '/live',
  Events: '/events',
  Funnels: '/funnels',
  Retention: '/retention',
  Cohorts: '/cohorts',
  Imports: '/imports',
  Exports: '/exports',
  Webhooks: '/webhooks',
  Alerts: '/alerts',
  Site: '/settings',
} as const

export type PageName = 'Sites' | keyof typeof sitePages | 'API Keys' | 'Session'

/** Every page that a signed-in person can open, by name, with its path. */
export function routesOf(siteId: string): Record<PageName, string> {
  const site = `/sites/${encodeURIComponent(siteId)}`
  return {
    Sites: '/',
    ...(Object.fromEntries(Object.entries(sitePages).map(([name, path]) => [name, site + path])) as Record<
      keyof typeof sitePages,
      string
    >),
    'API Keys': '/settings/keys',
    Session: '/settings/session',
  }
}
