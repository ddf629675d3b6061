import type { EventRow } from '@sluice/contracts/event-columns'
import { matchesCondition, type RawCondition, valueOf } from './matches-condition.ts'
import { bucketsByClock, rangeBefore } from './zone-clock.ts'

/** The fields of an event that the oracle reads. */
export type RawEvent = Pick<
  EventRow,
  | 'site_id'
  | 'environment'
  | 'event_type'
  | 'timestamp'
  | 'event_id'
  | 'session_id'
  | 'user_id'
  | 'anonymous_id'
  | 'url'
  | 'referrer'
  | 'country'
  | 'device_type'
  | 'properties'
>

/** A stats request in plain words; every field as in docs/http-interface.md#stats-parameters, times in Unix ms. */
export interface RawStatsQuery {
  site_id: string
  metric: string
  start_date: number
  end_date: number
  environment: 'prod' | 'dev' | 'all'
  timezone?: string
  group_by?: string
  country?: string
  device_type?: string
  event_type?: string
  filter?: RawCondition[]
  target_event?: string
  compare?: string
  limit?: number
  offset?: number
  exact?: boolean
}

type Entry = Record<string, string | number>

export interface ExpectedStats {
  value: number
  breakdown?: Entry[]
  compare?: ExpectedStats & { start_date: number; end_date: number }
}

const hour = 60 * 60 * 1000
const day = 24 * hour

/**
 * Compares events by time, and events with the same time by id
 * (docs/http-interface.md#stats-sessions).
 */
function inOrder(a: RawEvent, b: RawEvent): number {
  return a.timestamp - b.timestamp || compareText(a.event_id, b.event_id)
}

function compareText(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** An item of a count: an event, or a session at the time and with the fields of its first event. */
interface Item {
  at: RawEvent
  events: RawEvent[]
}

/**
 * Computes the result of a stats request from all events that were ever sent, copies included, by the rules of
 * docs/http-interface.md#metrics and without regard to speed. It verifies the SQL, so it shares no code with it.
 */
export function expectedStats(sent: readonly RawEvent[], query: RawStatsQuery): ExpectedStats {
  const { start_date, end_date, timezone = 'UTC', compare, ...same } = query
  const measured = expectedOver(sent, query)
  if (compare === undefined) return measured
  const [start, end] = rangeBefore(start_date, end_date, compare, timezone)
  const compared = { start_date: start, end_date: end }
  return { ...measured, compare: { ...compared, ...expectedOver(sent, { ...same, ...compared, timezone }) } }
}

function expectedOver(sent: readonly RawEvent[], query: RawStatsQuery): ExpectedStats {
  const events = withoutCopies(sent).filter(
    ({ site_id, environment }) =>
      site_id === query.site_id && (query.environment === 'all' || environment === query.environment),
  )
  const items = isSessionMetric(query.metric) ? sessions(events, query) : eventItems(events, query)
  const value = measure(items, query)
  const { group_by: groupBy } = query
  if (query.metric === 'event_count_by_type') return { value, breakdown: byType(items, query) }
  if (groupBy === undefined) return { value }
  return { value, breakdown: isUnit(groupBy) ? byBucket(items, query, groupBy) : byValue(items, query, groupBy) }
}

const units = ['minute', 'hour', 'day', 'week', 'month'] as const

type Unit = (typeof units)[number]

function isUnit(groupBy: string | undefined): groupBy is Unit {
  return (units as readonly (string | undefined)[]).includes(groupBy)
}

function isSessionMetric(metric: string): boolean {
  return ['avg_session_duration', 'bounce_rate', 'conversion_rate'].includes(metric)
}

/** Events with the same site, `event_id` and `timestamp` are one. */
function withoutCopies(events: readonly RawEvent[]): RawEvent[] {
  const byIdentity = new Map(
    events.map((event) => [JSON.stringify([event.site_id, event.event_id, event.timestamp]), event]),
  )
  return [...byIdentity.values()]
}

function matches(event: RawEvent, { country, device_type, event_type, filter = [] }: RawStatsQuery): boolean {
  return (
    (country === undefined || event.country === country) &&
    (device_type === undefined || event.device_type === device_type) &&
    (event_type === undefined || event.event_type === event_type) &&
    filter.every((condition) => matchesCondition(event, condition))
  )
}

function eventItems(events: readonly RawEvent[], query: RawStatsQuery): Item[] {
  return events
    .filter(({ timestamp }) => timestamp >= query.start_date && timestamp < query.end_date)
    .filter((event) => matches(event, query))
    .map((event) => ({ at: event, events: [event] }))
}

function sessions(events: readonly RawEvent[], query: RawStatsQuery): Item[] {
  const byId = Map.groupBy(events, ({ session_id = '' }) => session_id)
  byId.delete('')
  const found: Item[] = []
  for (const sameId of byId.values()) {
    const ordered = sameId.toSorted(inOrder)
    const first = ordered.find(({ timestamp }) => timestamp >= query.start_date - day && timestamp < query.end_date)
    if (first === undefined || first.timestamp < query.start_date) continue
    const own = ordered.filter(({ timestamp }) => timestamp >= first.timestamp && timestamp < first.timestamp + day)
    if (own.some((event) => matches(event, query))) found.push({ at: first, events: own })
  }
  return found
}

function measure(items: readonly Item[], { metric, target_event = 'purchase' }: RawStatsQuery): number {
  switch (metric) {
    case 'event_count':
    case 'event_count_by_type':
      return items.length
    case 'unique_users':
      return distinct(items.map(({ at }) => at.user_id))
    case 'unique_sessions':
      return distinct(items.map(({ at }) => at.session_id))
    case 'visitors':
      return distinct(items.map(({ at }) => visitorOf(at)))
    case 'avg_session_duration': {
      const spent = items.map(({ at, events }) => (events.at(-1)?.timestamp ?? 0) - at.timestamp)
      const total = spent.reduce((sum, ms) => sum + ms, 0)
      return items.length === 0 ? 0 : Math.round(total / items.length) / 1000
    }
    case 'bounce_rate':
      return percent(items.filter(({ events }) => events.length === 1).length, items.length)
    case 'conversion_rate':
      return percent(
        items.filter(({ events }) => events.some(({ event_type }) => event_type === target_event)).length,
        items.length,
      )
    default:
      throw new TypeError(`no rule for ${metric}`)
  }
}

function distinct(ids: readonly (string | undefined)[]): number {
  return new Set(ids.filter((id) => id !== undefined && id !== '')).size
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((10_000 * part) / whole) / 100
}

/** The three kinds of ids are kept apart. */
export function visitorOf({ user_id = '', anonymous_id = '', session_id = '' }: RawEvent): string {
  if (user_id !== '') return `user ${user_id}`
  if (anonymous_id !== '') return `anonymous ${anonymous_id}`
  return session_id === '' ? '' : `session ${session_id}`
}

function bucketsOf({ start_date, end_date, timezone = 'UTC' }: RawStatsQuery, unit: Unit): number[] {
  return bucketsByClock(start_date, end_date, unit, timezone)
}

function byBucket(items: readonly Item[], query: RawStatsQuery, unit: Unit): Entry[] {
  const starts = bucketsOf(query, unit)
  return starts.map((timestamp, index) => {
    const end = starts[index + 1] ?? Infinity
    const inBucket = items.filter(({ at }) => at.timestamp >= timestamp && at.timestamp < end)
    return { timestamp, value: measure(inBucket, query) }
  })
}

function byValue(items: readonly Item[], query: RawStatsQuery, dimension: string): Entry[] {
  const { start_date: timestamp, limit = 100, offset = 0 } = query
  const groups = [...Map.groupBy(items, ({ at }) => valueOf(at, dimension))]
    .map(([key, members]) => ({ key, members, value: measure(members, query) }))
    .sort((a, b) => b.value - a.value || compareText(a.key, b.key))
  const entries = groups
    .slice(offset, offset + limit)
    .map(({ key, value }) => ({ timestamp, key, [dimension]: key, value }))
  const rest = groups.slice(offset + limit).flatMap(({ members }) => members)
  if (rest.length === 0) return entries
  return [...entries, { timestamp, key: '(other)', [dimension]: '(other)', value: measure(rest, query) }]
}

function byType(items: readonly Item[], query: RawStatsQuery): Entry[] {
  const { group_by: groupBy, start_date: start, limit = 100, offset = 0 } = query
  const types = [...Map.groupBy(items, ({ at }) => at.event_type)]
    .sort(([a, eventsOfA], [b, eventsOfB]) => eventsOfB.length - eventsOfA.length || compareText(a, b))
    .map(([type]) => type)
  const skipped = new Set(types.slice(0, offset))
  const listed = new Set(types.slice(offset, offset + limit))
  const starts = isUnit(groupBy) ? bucketsOf(query, groupBy) : []
  const partOf = (event: RawEvent): string | number => {
    if (isUnit(groupBy)) return starts.findLast((start) => start <= event.timestamp) ?? Number.NaN
    return groupBy === undefined || groupBy === 'event_type' ? '' : valueOf(event, groupBy)
  }

  const shown = items.filter(({ at }) => !skipped.has(at.event_type))
  const entries = [
    ...Map.groupBy(shown, ({ at }) => {
      const isListed = listed.has(at.event_type)
      return JSON.stringify([isListed, isListed ? at.event_type : '(other)', partOf(at)])
    }),
  ].map(([group, members]) => {
    const [isListed, key, part] = JSON.parse(group) as [boolean, string, string | number]
    return { isListed, key, part, value: members.length }
  })
  return entries
    .sort(
      (a, b) =>
        (typeof a.part === 'number' && typeof b.part === 'number' ? a.part - b.part : 0) ||
        Number(b.isListed) - Number(a.isListed) ||
        b.value - a.value ||
        compareText(a.key, b.key) ||
        compareText(String(a.part), String(b.part)),
    )
    .map(({ key, part, value }) => ({
      timestamp: typeof part === 'number' ? part : start,
      key,
      ...(groupBy === undefined || isUnit(groupBy) ? {} : { [groupBy]: part }),
      event_type: key,
      value,
    }))
}
