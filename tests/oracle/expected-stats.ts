import type { EventRow } from '@sluice/contracts/event-row'
import { type AskedCondition, matchesCondition, valueOf } from './matches-condition.ts'
import { bucketsByClock, rangeBefore } from './zone-clock.ts'

/** What the oracle reads of an event. */
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

/** A stats request in plain words; every field as in contract section 4, times in Unix ms. */
export interface RawQuestion {
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
  filter?: AskedCondition[]
  target_event?: string
  compare?: string
  limit?: number
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

/** Events in the order of time; of events at one time, the one with the smaller id first (contract section 10). */
function inOrder(a: RawEvent, b: RawEvent): number {
  return a.timestamp - b.timestamp || compareText(a.event_id, b.event_id)
}

function compareText(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** A countable thing: an event, or a session that stands where its first event does. */
interface Item {
  at: RawEvent
  events: RawEvent[]
}

/**
 * The answer to a stats request, computed from all events that were ever sent, copies included, in the words of the
 * contract and without a thought for speed. Checks the SQL; shares nothing with it.
 */
export function expectedStats(sent: readonly RawEvent[], question: RawQuestion): ExpectedStats {
  const { start_date, end_date, timezone = 'UTC', compare, ...same } = question
  const measured = expectedOver(sent, question)
  if (compare === undefined) return measured
  const [start, end] = rangeBefore(start_date, end_date, compare, timezone)
  const compared = { start_date: start, end_date: end }
  return { ...measured, compare: { ...compared, ...expectedOver(sent, { ...same, ...compared, timezone }) } }
}

function expectedOver(sent: readonly RawEvent[], question: RawQuestion): ExpectedStats {
  const events = withoutCopies(sent).filter(
    ({ site_id, environment }) =>
      site_id === question.site_id && (question.environment === 'all' || environment === question.environment),
  )
  const items = isSessionMetric(question.metric) ? sessions(events, question) : eventItems(events, question)
  const value = measure(items, question)
  const { group_by: groupBy } = question
  if (question.metric === 'event_count_by_type') return { value, breakdown: byType(items, question) }
  if (groupBy === undefined) return { value }
  return { value, breakdown: isUnit(groupBy) ? byBucket(items, question, groupBy) : byValue(items, question, groupBy) }
}

const units = ['hour', 'day', 'week', 'month'] as const

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

function matches(event: RawEvent, { country, device_type, event_type, filter = [] }: RawQuestion): boolean {
  return (
    (country === undefined || event.country === country) &&
    (device_type === undefined || event.device_type === device_type) &&
    (event_type === undefined || event.event_type === event_type) &&
    filter.every((condition) => matchesCondition(event, condition))
  )
}

function eventItems(events: readonly RawEvent[], question: RawQuestion): Item[] {
  return events
    .filter(({ timestamp }) => timestamp >= question.start_date && timestamp < question.end_date)
    .filter((event) => matches(event, question))
    .map((event) => ({ at: event, events: [event] }))
}

function sessions(events: readonly RawEvent[], question: RawQuestion): Item[] {
  const byId = Map.groupBy(events, ({ session_id = '' }) => session_id)
  byId.delete('')
  const found: Item[] = []
  for (const ofId of byId.values()) {
    const ordered = ofId.toSorted(inOrder)
    const first = ordered.find(
      ({ timestamp }) => timestamp >= question.start_date - day && timestamp < question.end_date,
    )
    if (first === undefined || first.timestamp < question.start_date) continue
    const own = ordered.filter(({ timestamp }) => timestamp >= first.timestamp && timestamp < first.timestamp + day)
    if (own.some((event) => matches(event, question))) found.push({ at: first, events: own })
  }
  return found
}

function measure(items: readonly Item[], { metric, target_event = 'purchase' }: RawQuestion): number {
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
function visitorOf({ user_id = '', anonymous_id = '', session_id = '' }: RawEvent): string {
  if (user_id !== '') return `user ${user_id}`
  if (anonymous_id !== '') return `anonymous ${anonymous_id}`
  return session_id === '' ? '' : `session ${session_id}`
}

function bucketsOf({ start_date, end_date, timezone = 'UTC' }: RawQuestion, unit: Unit): number[] {
  return bucketsByClock(start_date, end_date, unit, timezone)
}

function byBucket(items: readonly Item[], question: RawQuestion, unit: Unit): Entry[] {
  const starts = bucketsOf(question, unit)
  return starts.map((timestamp, index) => {
    const end = starts[index + 1] ?? Infinity
    const inBucket = items.filter(({ at }) => at.timestamp >= timestamp && at.timestamp < end)
    return { timestamp, value: measure(inBucket, question) }
  })
}

function byValue(items: readonly Item[], question: RawQuestion, dimension: string): Entry[] {
  const { start_date: timestamp, limit = 100 } = question
  const groups = [...Map.groupBy(items, ({ at }) => valueOf(at, dimension))]
    .map(([key, members]) => ({ key, members, value: measure(members, question) }))
    .sort((a, b) => b.value - a.value || compareText(a.key, b.key))
  const entries = groups.slice(0, limit).map(({ key, value }) => ({ timestamp, key, [dimension]: key, value }))
  const rest = groups.slice(limit).flatMap(({ members }) => members)
  if (rest.length === 0) return entries
  return [...entries, { timestamp, key: '(other)', [dimension]: '(other)', value: measure(rest, question) }]
}

function byType(items: readonly Item[], question: RawQuestion): Entry[] {
  const { group_by: groupBy, start_date: start, limit = 100 } = question
  const types = [...Map.groupBy(items, ({ at }) => at.event_type)]
    .sort(([a, ofA], [b, ofB]) => ofB.length - ofA.length || compareText(a, b))
    .map(([type]) => type)
  const listed = new Set(types.slice(0, limit))
  const starts = isUnit(groupBy) ? bucketsOf(question, groupBy) : []
  const partOf = (event: RawEvent): string | number => {
    if (isUnit(groupBy)) return starts.findLast((start) => start <= event.timestamp) ?? Number.NaN
    return groupBy === undefined || groupBy === 'event_type' ? '' : valueOf(event, groupBy)
  }

  const entries = [
    ...Map.groupBy(items, ({ at }) => {
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
