/** The logs on which events travel to the event store: `live`, and `backfill` for old ones and imports. */
export const lanes = ['live', 'backfill'] as const

export type Lane = (typeof lanes)[number]

/**
 * Events that are older than this at their receipt, in ms, travel on the backfill lane: 62 days, so that an insert of the
 * live lane covers three or four months, which are partitions of the table. Copies of an event may travel on both lanes.
 */
export const backfillAgeMs = 62 * 24 * 3_600_000

/** The lane of an event (both times Unix ms). */
export function laneOf(timestamp: number, receivedAt: number): Lane {
  return timestamp < receivedAt - backfillAgeMs ? 'backfill' : 'live'
}
