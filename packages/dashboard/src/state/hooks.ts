import { signal } from '@preact/signals'
import { useContext, useMemo } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import type { Condition, Filter } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import type { Metric, TimeUnit } from '@sluice/contracts/stats'
import type { StatsQuery } from '../api/wire.ts'
import { afterPaint } from './after-paint.ts'
import { clock } from './clock.ts'
import { type Bounds, boundsOf, comparedBoundsOf, type Moment, unitFor, unitsFor } from './range.ts'
import { routeOf, type SitePage, sitePath } from './route.ts'
import { SiteContext, useMay, useSession } from './session.tsx'
import { type ShellDates, shellDates } from './shell-dates.ts'
import { formatView, parseView, type View, type ViewChanges, type ViewProblem } from './view.ts'

export interface ViewState extends View {
  /** The site of the address; `''` on pages without one. */
  siteId: string
  /** Parameters of the address that can't be understood. */
  problems: ViewProblem[]
  /** Changes the view: one entry of the browser's history for each call. `undefined` takes a default back. */
  setView: (patch: ViewChanges) => void
  /** The address of the view with changes, on this page or another of the site. */
  hrefOf: (patch: ViewChanges, page?: SitePage) => string
  /** Whether the page's address and the paths of its requests have room for filters; for fewer than now: always. */
  hasRoom: (filters: readonly Condition[]) => boolean
}

/**
 * Characters of a page's address, without its origin, and of the filters in a request's path; the server takes 16 KiB
 * for a path and all headers.
 */
const addressLengthMax = 12_000

/** Characters of filters in the path of a request, where they are JSON: up to twice as many as in an address. */
const requestLengthOf = (filters: readonly Condition[]) =>
  new URLSearchParams({ filter: JSON.stringify(filters) }).toString().length

/** Commas, colons and slashes stand as they are, so that people can read the address. */
const readable = (parameters: string) => parameters.replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%2F', '/')

/** The view that was chosen and is not in the address yet, if any. */
const chosen = signal<View | undefined>(undefined)

/**
 * The view that was chosen last. It changes before `useView`, which follows the address and changes after the next
 * paint. Use it in controls, so that they respond at once, and `useView` for everything that takes time to render.
 */
export function useChosenView(): View {
  const view = useView()
  return chosen.value ?? view
}

/**
 * The router's location with what its types leave out: whether a new entry of the history led here, and not the
 * browser's buttons.
 */
export const useWholeLocation = () => useLocation() as ReturnType<typeof useLocation> & { wasPush: boolean }

/** Renders the page again as the address says. */
export function followAddress(): void {
  chosen.value = undefined
  // The router reads the address when it changes by the browser's buttons; it has no other way to be told.
  dispatchEvent(new PopStateEvent('popstate'))
}

/** The choices of the page, from its address, and functions that change them. */
export function useView(): ViewState {
  const { url, path } = useLocation()
  return useMemo(() => {
    const { view, problems } = parseView(new URL(url, location.origin).searchParams)
    const current = routeOf(path)
    const siteId = 'siteId' in current ? current.siteId : ''
    const hrefOf = (patch: ViewChanges, page?: SitePage) => {
      // The address may be one step ahead of what is rendered.
      const search = new URL(location.href).searchParams
      // Parameters of one page mean nothing on another.
      const others = page === undefined ? search : undefined
      const parameters = formatView({ ...parseView(search).view, ...patch }, others).toString()
      const to = page === undefined ? path : sitePath(siteId, page)
      return parameters === '' ? to : `${to}?${readable(parameters)}`
    }
    const setView = (patch: ViewChanges) => {
      const href = hrefOf(patch)
      if (href === location.pathname + location.search) return
      history.pushState(null, '', href)
      chosen.value = parseView(new URL(location.href).searchParams).view
      afterPaint(followAddress)
    }
    const hasRoom = (filters: readonly Condition[]) => {
      const length = requestLengthOf(filters)
      if (length < requestLengthOf(view.filters)) return true
      return length <= addressLengthMax && hrefOf({ filters: [...filters] }).length <= addressLengthMax
    }
    return { ...view, siteId, problems, setView, hrefOf, hasRoom }
  }, [url])
}

/** A path with the query of the address in which a parameter has another value; undefined removes it. */
function addressWith(path: string, name: string, value: string | undefined): string {
  const next = new URL(location.href).searchParams
  if (value === undefined) next.delete(name)
  else next.set(name, value)
  const text = next.toString()
  return text === '' ? path : `${path}?${readable(text)}`
}

/** Whether the address has room for a value of a parameter: a longer address can't be loaded again. */
export const hasRoomFor = (name: string, value: string): boolean =>
  addressWith(location.pathname, name, value).length <= addressLengthMax

/**
 * A parameter of the page's own in the address, such as the record that is open: its value, and how to set it
 * (undefined removes it). `isReplaced` makes no entry in the history, for what changes while somebody types. Once the
 * address is that of another page, setting does nothing.
 */
export function usePageParameter(
  name: string,
): [string | undefined, (value: string | undefined, isReplaced?: boolean) => void] {
  const { url, path, route } = useLocation()
  const search = new URL(url, location.origin).searchParams
  const set = (value: string | undefined, isReplaced = false) => {
    // An answer that arrives after the reader has left the page must not lead back to it.
    if ((location.pathname.replace(/\/+$/, '') || '/') !== path) return
    route(addressWith(path, name, value), isReplaced)
  }
  return [search.get(name) ?? undefined, set]
}

/** The common part of a page's queries: the view's range in its zone, its environment and filters. */
export interface ViewQueries {
  /** IANA name of the view's time zone. */
  zone: string
  environment: Environment | 'all'
  /** The environment whose events a new alert rule counts; undefined if the session's key may not create a rule. */
  alertEnvironment: Environment | undefined
  bounds: Bounds
  /** The range that the view compares with, if any. */
  compared: Bounds | undefined
  /** Unit of the chart, and the units that may be chosen. */
  unit: TimeUnit
  units: TimeUnit[]
  moment: Moment
  /** `bounds` for commands of a shell that are run later; undefined where days are chosen. */
  dates: ShellDates | undefined
  /** The query for a metric, with more parameters. */
  statsQuery: (metric: Metric, more?: Partial<StatsQuery>) => StatsQuery
  /** The same query about the compared range; undefined without one. */
  comparedQuery: (metric: Metric, more?: Partial<StatsQuery>) => StatsQuery | undefined
}

/**
 * The queries of the view, on pages of a site. They change with the view and, for ranges that reach now, each minute.
 */
export function useViewQueries(): ViewQueries {
  const view = useView()
  const session = useSession()
  const site = useContext(SiteContext)
  const { range, compare, filters, exact, by, siteId } = view
  const zone = view.zone ?? site?.timezone ?? 'UTC'
  const alertEnvironment = useMay('admin') ? session.environment : undefined
  const environment = view.env ?? session.environment
  const now = clock.value
  const firstEventAt = site?.first_event_at ?? null
  const key = JSON.stringify([
    ...[siteId, range, compare, filters, exact, by, zone],
    ...[environment, alertEnvironment, now, firstEventAt],
  ])
  return useMemo(() => {
    const moment: Moment = { now, zone, firstEventAt }
    const bounds = boundsOf(range, moment)
    const compared = comparedBoundsOf(compare, range, moment)
    const units = unitsFor(bounds)
    const unit = by !== undefined && units.includes(by) ? by : unitFor(bounds)
    const filter: Filter = filters
    const queryOf =
      ({ startMs, endMs }: Bounds) =>
      (metric: Metric, more: Partial<StatsQuery> = {}): StatsQuery => ({
        site_id: siteId,
        metric,
        start_date: startMs,
        end_date: endMs,
        timezone: zone,
        environment,
        ...(filter.length === 0 ? {} : { filter }),
        ...(exact ? { exact } : {}),
        ...more,
      })
    return {
      zone,
      environment,
      alertEnvironment,
      bounds,
      compared,
      unit,
      units,
      moment,
      dates: shellDates(range, zone),
      statsQuery: queryOf(bounds),
      comparedQuery: (metric, more) => (compared === undefined ? undefined : queryOf(compared)(metric, more)),
    }
  }, [key])
}
