import { type Condition, isOneOf } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import { canonicalTimeZone } from '@sluice/contracts/sites'
import { type Metric, type TimeUnit, timeUnits } from '@sluice/contracts/stats'
import { formatCondition, parseCondition } from './conditions.ts'
import { type Compare, type CustomRange, isValidCustom, presets, type Range } from './range.ts'

/** The metrics of the headline numbers, in their order. */
export const headlineMetrics = [
  'visitors',
  'unique_sessions',
  'event_count',
  'bounce_rate',
  'avg_session_duration',
  'conversion_rate',
] as const satisfies readonly Metric[]
export type HeadlineMetric = (typeof headlineMetrics)[number]

/** The choices of a page, which the query of its address contains. */
export interface View {
  range: Range
  compare: Compare
  /** IANA name; absent: the site's. */
  zone?: string
  /** Absent: the environment of the session's key. */
  env?: Environment | 'all'
  metric: HeadlineMetric
  /** Unit of the chart; absent: chosen by the length of the range. */
  by?: TimeUnit
  filters: Condition[]
  /** Counts exactly instead of estimating. */
  exact: boolean
}

/** A view, or changes of a view; an undefined member takes its default. */
export type ViewChanges = { [Name in keyof View]?: View[Name] | undefined }

/** A parameter of the address that can't be understood. */
export interface ViewProblem {
  parameter: 'range' | 'compare' | 'zone' | 'env' | 'metric' | 'by' | 'f' | 'exact'
  value: string
}

export const defaultView: View = {
  range: '28d',
  compare: 'previous',
  metric: 'visitors',
  filters: [],
  exact: false,
}

const comparisons = ['none', 'previous', 'year'] as const
const shownEnvironments = ['prod', 'dev', 'all'] as const
/** Parameters of the address that belong to the view; pages may have others of their own. */
const parameters = ['range', 'compare', 'zone', 'env', 'metric', 'by', 'f', 'exact'] as const

const formatCustom = ({ from, to }: CustomRange) => `${from}..${to}`

/** The name stays as written, as browsers differ in which alias of a zone they call the main one. */
function parseZone(text: string): string | undefined {
  return canonicalTimeZone(text) === undefined ? undefined : text
}

function parseCustom(text: string): CustomRange | undefined {
  const [from, to, ...rest] = text.split('..')
  if (from === undefined || to === undefined || rest.length > 0) return undefined
  return isValidCustom({ from, to }) ? { from, to } : undefined
}

/**
 * The parameters of a view in the address. What equals the default is left out. Parameters that are not part of the
 * view are kept from `others`.
 */
export function formatView(view: ViewChanges, others: URLSearchParams = new URLSearchParams()): URLSearchParams {
  const search = new URLSearchParams()
  const set = (name: string, value: string | undefined, fallback?: string) => {
    if (value !== undefined && value !== fallback) search.set(name, value)
  }
  set('range', typeof view.range === 'object' ? formatCustom(view.range) : view.range, '28d')
  set('compare', typeof view.compare === 'object' ? formatCustom(view.compare) : view.compare, 'previous')
  set('zone', view.zone)
  set('env', view.env)
  set('metric', view.metric, defaultView.metric)
  set('by', view.by)
  for (const each of view.filters ?? []) search.append('f', formatCondition(each))
  if (view.exact === true) search.set('exact', 'true')
  for (const [name, value] of others) if (!isOneOf(parameters, name)) search.append(name, value)
  return search
}

/** Reads the view from the address. What can't be understood takes its default and is named in `problems`. */
export function parseView(search: URLSearchParams): { view: View; problems: ViewProblem[] } {
  const view: View = { ...defaultView, filters: [] }
  const problems: ViewProblem[] = []
  /** Applies a parameter unless its reading is undefined. */
  const read = <T>(
    parameter: ViewProblem['parameter'],
    parse: (text: string) => T | undefined,
    apply: (value: T) => void,
  ) => {
    for (const text of parameter === 'f' ? search.getAll('f') : [search.get(parameter)]) {
      if (text === null) continue
      const value = parse(text)
      if (value === undefined) problems.push({ parameter, value: text })
      else apply(value)
    }
  }
  const oneOf =
    <T extends string>(values: readonly T[]) =>
    (text: string) =>
      isOneOf(values, text) ? text : undefined
  read(
    'range',
    (text) => oneOf(presets)(text) ?? parseCustom(text),
    (range) => (view.range = range),
  )
  read(
    'compare',
    (text) => oneOf(comparisons)(text) ?? parseCustom(text),
    (compare) => (view.compare = compare),
  )
  read('zone', parseZone, (zone) => (view.zone = zone))
  read('env', oneOf(shownEnvironments), (env) => (view.env = env))
  read('metric', oneOf(headlineMetrics), (metric) => (view.metric = metric))
  read('by', oneOf(timeUnits), (by) => (view.by = by))
  read('f', parseCondition, (condition) => view.filters.push(condition))
  read('exact', oneOf(['true', 'false']), (exact) => (view.exact = exact === 'true'))
  return { view, problems }
}
