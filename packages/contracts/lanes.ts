import { dayMs } from './time-units.ts'

/** The logs through which events go to the event store: `live`, and the backfill log, for old events and imports. */
export type Lane = 'live' | 'backfill'

/**
 * Events that are older than this at their receipt, in ms, go through the backfill log: 62 days, so that an
 * insert of the live log covers three or four months, which are partitions of the table. Copies of an event may go
 * through both logs.
 */
export const backfillAgeMs = 62 * dayMs

/**
 * `complete_until` of a query that reads no event before `readsFrom`. Every accepted event of the live log can be read
 * up to `live`, and every accepted event of both logs up to `all` (all Unix ms). An event of the backfill log that was
 * received until `live` has a timestamp before `live - backfillAgeMs`. A query that reads nothing earlier therefore
 * does not wait for that log.
 */
export function completeUntilFrom({ live, all }: { live: number; all: number }, readsFrom: number): number {
  return readsFrom >= live - backfillAgeMs ? live : all
}

/** The lane of an event (both times Unix ms). */
export function laneOf(timestamp: number, receivedAt: number): Lane {
  return timestamp < receivedAt - backfillAgeMs ? 'backfill' : 'live'
}
