import type { EventRow } from '@sluice/contracts/event-row'

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
  | 'country'
  | 'device_type'
>

/** A stats request in plain words; every field as in contract section 4, times in Unix ms. */
export interface RawQuestion {
  site_id: string
  metric: string
  start_date: number
  end_date: number
  environment: 'prod' | 'dev' | 'all'
  group_by?: string
  country?: string
  device_type?: string
  target_event?: string
  limit?: number
}

export interface ExpectedStats {
  value: number
  breakdown?: Record<string, string | number>[]
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
  const events = withoutCopies(sent).filter(
    ({ site_id, environment }) =>
      site_id === question.site_id && (question.environment === 'all' || environment === question.environment),
  )
  const items = isSessionMetric(question.metric) ? sessions(events, question) : eventItems(events, question)
  const value = measure(items, question)
  if (question.metric === 'event_count_by_type') return { value, breakdown: byType(items, question) }
  switch (question.group_by) {
    case undefined:
      return { value }
    case 'hour':
    case 'day':
      return { value, breakdown: byBucket(items, question, question.group_by === 'hour' ? hour : day) }
    default:
      return { value, breakdown: byValue(items, question, question.group_by as 'country' | 'device_type') }
  }
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

function matches(event: RawEvent, { country, device_type }: RawQuestion): boolean {
  return (
    (country === undefined || event.country === country) &&
    (device_type === undefined || event.device_type === device_type)
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

function bucketOf(timestamp: number, width: number): number {
  return timestamp - (timestamp % width)
}

function byBucket(items: readonly Item[], question: RawQuestion, width: number): Record<string, number>[] {
  const entries = []
  for (let start = bucketOf(question.start_date, width); start < question.end_date; start += width) {
    const inBucket = items.filter(({ at }) => at.timestamp >= start && at.timestamp < start + width)
    entries.push({ timestamp: start, value: measure(inBucket, question) })
  }
  return entries
}

function byValue(
  items: readonly Item[],
  question: RawQuestion,
  dimension: 'country' | 'device_type',
): Record<string, string | number>[] {
  const { start_date: timestamp, limit = 100 } = question
  const groups = [...Map.groupBy(items, ({ at }) => at[dimension] ?? '')]
    .map(([key, members]) => ({ key, members, value: measure(members, question) }))
    .sort((a, b) => b.value - a.value || compareText(a.key, b.key))
  const entries = groups.slice(0, limit).map(({ key, value }) => ({ timestamp, key, [dimension]: key, value }))
  const rest = groups.slice(limit).flatMap(({ members }) => members)
  if (rest.length === 0) return entries
  return [...entries, { timestamp, key: '(other)', [dimension]: '(other)', value: measure(rest, question) }]
}

function byType(items: readonly Item[], question: RawQuestion): Record<string, string | number>[] {
  const { group_by: groupBy, start_date: start, limit = 100 } = question
  const types = [...Map.groupBy(items, ({ at }) => at.event_type)]
    .sort(([a, ofA], [b, ofB]) => ofB.length - ofA.length || compareText(a, b))
    .map(([type]) => type)
  const listed = new Set(types.slice(0, limit))

  const entries = [
    ...Map.groupBy(items, ({ at }) => {
      const isListed = listed.has(at.event_type)
      return JSON.stringify([isListed, isListed ? at.event_type : '(other)', partOf(at, groupBy)])
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
      event_type: key,
      ...(groupBy === 'country' || groupBy === 'device_type' ? { [groupBy]: part } : {}),
      value,
    }))
}

/** The bucket, country or device of an event; `''` without a grouping. */
function partOf(event: RawEvent, groupBy: string | undefined): string | number {
  if (groupBy === 'hour') return bucketOf(event.timestamp, hour)
  if (groupBy === 'day') return bucketOf(event.timestamp, day)
  if (groupBy === 'country' || groupBy === 'device_type') return event[groupBy] ?? ''
  return ''
}
