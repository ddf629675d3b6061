import { liveLimits } from '@sluice/contracts/live'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { sum } from '@sluice/runtime/sum'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { type StoredEventRow, toStoredEvent } from '../stored-event.ts'
import { countsStatement, lastEventsStatement, type LiveSpec, type MinuteRow } from './live-statements.ts'

/** Counts of the last minutes, and the latest events. */
export interface LiveNumbers {
  /** Distinct visitors of the recent minutes. */
  visitors: number
  /** Events of the recent minutes. */
  events: number
  /** Events of each of the last minutes, the earliest first. */
  eventsPerMinute: number[]
  /** The newest first. */
  lastEvents: StoredEvent[]
}

/** Reads what happened on a site until now (docs/http-interface.md#live). */
export async function readLive(spec: LiveSpec, runner: QueryRunner): Promise<LiveNumbers> {
  const [counts, events] = await Promise.all([
    runner.query<MinuteRow>(countsStatement(spec)),
    runner.query<StoredEventRow>(lastEventsStatement(spec)),
  ])
  const eventsPerMinute = Array<number>(liveLimits.minutes).fill(0)
  for (const { minute, events: count } of counts.rows) eventsPerMinute[minute] = count
  return {
    visitors: counts.totals?.visitors ?? 0,
    events: sum(eventsPerMinute.slice(-liveLimits.recentMinutes)),
    eventsPerMinute,
    lastEvents: events.rows.map(toStoredEvent),
  }
}
