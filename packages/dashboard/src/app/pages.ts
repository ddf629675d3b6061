import type { ComponentType } from 'preact'
import Overview from '../pages/overview/page.tsx'
import type { Route } from '../state/route.ts'
import { lazyPage } from '../ui/lazy-page.tsx'

/**
 * The pages, each in a chunk of its own except the Overview, which most people open first. `/signin` has none: the
 * session's gate leads away from it.
 */
export const pages: Partial<Record<Route['page'], ComponentType>> = {
  sites: lazyPage(() => import('../pages/sites/page.tsx')),
  overview: Overview,
  live: lazyPage(() => import('../pages/live/page.tsx')),
  events: lazyPage(() => import('../pages/events/page.tsx')),
  funnels: lazyPage(() => import('../pages/funnels/page.tsx')),
  retention: lazyPage(() => import('../pages/retention/page.tsx')),
  cohorts: lazyPage(() => import('../pages/cohorts/page.tsx')),
  imports: lazyPage(() => import('../pages/imports/page.tsx')),
  exports: lazyPage(() => import('../pages/exports/page.tsx')),
  webhooks: lazyPage(() => import('../pages/webhooks/page.tsx')),
  alerts: lazyPage(() => import('../pages/alerts/page.tsx')),
  settings: lazyPage(() => import('../pages/settings/page.tsx')),
  keys: lazyPage(() => import('../pages/keys/page.tsx')),
  session: lazyPage(() => import('../pages/session/page.tsx')),
}

/** In place of all sites, for a key that may not list them. */
export const ChooseSite = lazyPage(() => import('../pages/sites/choose-site.tsx'))
/** The first minutes with Sluice: without a site, and with a site without events. */
export const NameSite = lazyPage(() => import('../pages/first-event/name-site.tsx'))
export const FirstEvent = lazyPage(() => import('../pages/first-event/page.tsx'))
