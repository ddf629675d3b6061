import { type RawEvent, visitorOf } from './expected-stats.ts'
import { matchesCondition, type RawCondition } from './matches-condition.ts'

/** A funnel request in plain words; times in Unix ms. */
export interface RawFunnel {
  site_id: string
  environment: 'prod' | 'dev' | 'all'
  start_date: number
  end_date: number
  windowMs: number
  of?: 'user' | 'visitor'
  steps: { event_type: string; conditions?: RawCondition[] }[]
}

/**
 * Counts the users that reach each step (docs/http-interface.md#funnel), by trying every sequence of events from every
 * event of the first step.
 */
export function expectedFunnel(sent: readonly RawEvent[], funnel: RawFunnel): number[] {
  const { site_id, environment, start_date, end_date, steps, of = 'user' } = funnel
  const events = sent.filter(
    (event) =>
      event.site_id === site_id &&
      (environment === 'all' || event.environment === environment) &&
      event.timestamp >= start_date &&
      event.timestamp < end_date,
  )
  const actors = Map.groupBy(events, (event) => (of === 'user' ? (event.user_id ?? '') : visitorOf(event)))
  actors.delete('')
  const levels = [...actors.values()].map((own) => levelOf(own, funnel))
  return steps.map((_, index) => levels.filter((level) => level > index).length)
}

function levelOf(events: readonly RawEvent[], { steps, windowMs }: RawFunnel): number {
  const ordered = events.toSorted(
    (a, b) => a.timestamp - b.timestamp || Buffer.compare(Buffer.from(a.event_id), Buffer.from(b.event_id)),
  )
  const meets = (event: RawEvent, index: number): boolean => {
    const { event_type, conditions = [] } = steps[index] ?? {}
    return event.event_type === event_type && conditions.every((condition) => matchesCondition(event, condition))
  }
  /** The most steps that can be met by the events after `from`, when `level` are met. */
  const furthest = (from: number, level: number, until: number): number => {
    let best = level
    for (const [index, event] of ordered.entries()) {
      if (index > from && event.timestamp <= until && meets(event, level)) {
        best = Math.max(best, furthest(index, level + 1, until))
      }
    }
    return best
  }
  return Math.max(
    0,
    ...ordered.map((event, index) => (meets(event, 0) ? furthest(index, 1, event.timestamp + windowMs) : 0)),
  )
}
