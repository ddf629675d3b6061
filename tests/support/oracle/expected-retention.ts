import { type RawEvent, visitorOf } from './expected-stats.ts'
import { matchesCondition, type RawCondition } from './matches-condition.ts'
import { bucketsByClock } from './zone-clock.ts'

/** The fields of a user, as they were imported. */
export interface RawUser {
  site_id: string
  environment: 'prod' | 'dev'
  user_id: string
  email?: string
  name?: string
  company?: string
  plan?: string
}

export interface RawCriteria {
  type: 'and' | 'or'
  scope?: 'event' | 'user'
  conditions: RawCondition[]
}

/** The events that a request covers; those later than `now` (Unix ms) do not count. */
export interface RawScope {
  site_id: string
  environment: 'prod' | 'dev' | 'all'
  now: number
}

interface Stored {
  events: readonly RawEvent[]
  users: readonly RawUser[]
}

const week = 7 * 24 * 3_600_000

/** Events that count, by user. */
function byUser({ events }: Stored, scope: RawScope): Map<string, RawEvent[]> {
  const users = Map.groupBy(eventsOf(events, scope), ({ user_id = '' }) => user_id)
  users.delete('')
  return users
}

/** Events that count, by visitor; those of a user by the `user_id`. */
function byVisitor({ events }: Stored, scope: RawScope): Map<string, RawEvent[]> {
  const visitors = Map.groupBy(eventsOf(events, scope), visitorOf)
  visitors.delete('')
  return visitors
}

function eventsOf(events: readonly RawEvent[], { site_id, environment, now }: RawScope): RawEvent[] {
  return events.filter(
    (event) =>
      event.site_id === site_id &&
      (environment === 'all' || event.environment === environment) &&
      event.timestamp <= now,
  )
}

/** The time (Unix ms) of the entry of each member of a cohort (docs/http-interface.md#cohort-members). */
function expectedMembers(stored: Stored, scope: RawScope, criteria: RawCriteria): Map<string, number> {
  const members = new Map<string, number>()
  for (const [userId, events] of byUser(stored, scope)) {
    const entered = entryOf(events, stored.users, criteria)
    if (entered !== undefined) members.set(userId, entered)
  }
  return members
}

function entryOf(events: readonly RawEvent[], users: readonly RawUser[], criteria: RawCriteria): number | undefined {
  const firstThatMeets = (condition: RawCondition): number | undefined => {
    const times = events.filter((event) => matchesCondition(withUser(event, users), condition))
    return times.length === 0 ? undefined : Math.min(...times.map(({ timestamp }) => timestamp))
  }
  if (criteria.scope !== 'user') return firstThatMeets(criteria)
  const met = criteria.conditions.map(firstThatMeets)
  const times = met.filter((time) => time !== undefined)
  if (times.length === 0 || (criteria.type === 'and' && times.length < met.length)) return undefined
  return criteria.type === 'and' ? Math.max(...times) : Math.min(...times)
}

function withUser(event: RawEvent, users: readonly RawUser[]) {
  const user = users.find(
    ({ site_id, environment, user_id }) =>
      site_id === event.site_id && environment === event.environment && user_id === event.user_id,
  )
  return user === undefined ? event : { ...event, user }
}

/** `data` of a preview. */
export function expectedPreview(stored: Stored, scope: RawScope, criteria: RawCriteria) {
  const size = expectedMembers(stored, scope, criteria).size
  return { size, share: percent(size, byUser(stored, scope).size) }
}

/** `size` and `retention_by_week` of a cohort's analysis. */
export function expectedAnalysis(stored: Stored, scope: RawScope, criteria: RawCriteria, weeks: number) {
  const users = byUser(stored, scope)
  const members = [...expectedMembers(stored, scope, criteria)]
  const rows = Array.from({ length: weeks }, (_, n) => {
    const isOver = ([, entered]: [string, number]): boolean => entered + (n + 1) * week <= scope.now
    const hasBegun = ([, entered]: [string, number]): boolean => entered + n * week <= scope.now
    const over = members.filter(isOver)
    const complete = n === 0 ? over.length === members.length : over.length > 0
    const counted = n === 0 ? members : complete ? over : members.filter(hasBegun)
    const returning = counted.filter(([userId, entered]) =>
      users
        .get(userId)
        ?.some(({ timestamp }) => timestamp >= entered + n * week && timestamp < entered + (n + 1) * week),
    )
    return { ...rowOf(n, counted.length, returning.length), complete }
  })
  return { size: members.length, retention_by_week: rows }
}

export interface RawMatrix extends RawScope {
  weeks: number
  zone: string
  mode: 'on' | 'on_or_after'
  return_event?: string
  of?: 'user' | 'visitor'
  criteria?: RawCriteria
}

/** `cohorts` and `average` of the retention matrix. */
export function expectedMatrix(stored: Stored, matrix: RawMatrix) {
  const { now, weeks, zone, mode, return_event, of, criteria } = matrix
  const starts = weekStarts(now, weeks, zone)
  const weekOf = (at: number): number => starts.findLastIndex((start) => start <= at)
  const members = criteria && expectedMembers(stored, matrix, criteria)
  const users = [...(of === 'visitor' ? byVisitor : byUser)(stored, matrix)]
    .filter(([, [event]]) => members === undefined || members.has(event?.user_id ?? ''))
    .map(([, events]) => ({
      first: weekOf(Math.min(...events.map(({ timestamp }) => timestamp))),
      returnWeeks: events
        .filter(({ event_type }) => return_event === undefined || event_type === return_event)
        .map(({ timestamp }) => weekOf(timestamp)),
    }))
  const cohorts = starts.map((week_start, index) => {
    const own = users.filter(({ first }) => first === index)
    const retention_by_week = starts.slice(index).map((_, n) => {
      const returning = own.filter(({ returnWeeks }) =>
        returnWeeks.some((at) => (mode === 'on' ? at === index + n : at >= index + n)),
      )
      return { ...rowOf(n, own.length, returning.length), complete: index + n < weeks - 1 }
    })
    return { week_start, size: own.length, retention_by_week }
  })
  const average = Array.from({ length: weeks - 1 }, (_, n) => {
    const rows = cohorts.map((cohort) => cohort.retention_by_week[n]).filter((row) => row?.complete === true)
    const sum = (numbers: (number | undefined)[]): number => numbers.reduce<number>((all, each) => all + (each ?? 0), 0)
    return rowOf(n, sum(rows.map((row) => row?.cohort_size)), sum(rows.map((row) => row?.returning_users)))
  })
  return { cohorts, average }
}

const knownStarts = new Map<string, number>()

/** Starts of a zone's last weeks, each found by watching its clocks. */
function weekStarts(now: number, weeks: number, zone: string): number[] {
  const starts = [startOfWeek(now, zone)]
  while (starts.length < weeks) starts.unshift(startOfWeek((starts[0] ?? 0) - 1, zone))
  return starts
}

function startOfWeek(at: number, zone: string): number {
  const key = `${zone} ${at}`
  const start = knownStarts.get(key) ?? bucketsByClock(at, at + 1, 'week', zone)[0] ?? Number.NaN
  knownStarts.set(key, start)
  return start
}

function rowOf(n: number, size: number, returning: number) {
  return { week: n, retention_rate: percent(returning, size), cohort_size: size, returning_users: returning }
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : Number(((100 * part) / whole).toFixed(2))
}
