import type { PropertyType } from '@sluice/contracts/event-columns'
import { type LiveEvent, liveLimits } from '@sluice/contracts/live'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import type { QueryRunner } from '../query-runner.ts'
import {
  countsStatement,
  type EventColumnsRow,
  lastEventsStatement,
  type LiveSpec,
  type MinuteRow,
} from './live-statements.ts'

export interface LiveNumbers {
  /** Distinct visitors of the recent minutes. */
  visitors: number
  /** Events of the recent minutes. */
  events: number
  /** Events of each of the last minutes, the earliest first. */
  eventsPerMinute: number[]
  /** The newest first. */
  lastEvents: LiveEvent[]
}

/** Reads what happened on a site until now (docs/http-interface.md#live). */
export async function readLive(spec: LiveSpec, runner: QueryRunner): Promise<LiveNumbers> {
  const [counts, events] = await Promise.all([
    runner.query<MinuteRow>(countsStatement(spec)),
    runner.query<EventColumnsRow>(lastEventsStatement(spec)),
  ])
  const eventsPerMinute = Array<number>(liveLimits.minutes).fill(0)
  for (const { minute, events: count } of counts.rows) eventsPerMinute[minute] = count
  return {
    visitors: counts.totals?.visitors ?? 0,
    events: eventsPerMinute.slice(-liveLimits.recentMinutes).reduce((sum, count) => sum + count, 0),
    eventsPerMinute,
    lastEvents: events.rows.map(toLiveEvent),
  }
}

/** Leaves out empty fields; properties get the types that they were sent with. */
function toLiveEvent({ properties, property_types: types, ...columns }: EventColumnsRow): LiveEvent {
  const present = Object.entries(columns).filter(([, value]) => value !== '')
  const typed = Object.entries(properties).map(([name, text]) => [name, parseProperty(text, types[name])])
  return {
    ...(Object.fromEntries(present) as Omit<LiveEvent, 'properties'>),
    ...(typed.length === 0 ? {} : { properties: Object.fromEntries(typed) as Record<string, unknown> }),
  }
}

function parseProperty(text: string, type: PropertyType | undefined): unknown {
  // Values other than strings are stored as JSON text, with digits that a double can't hold.
  return type === undefined ? text : parseExactly(text)
}
