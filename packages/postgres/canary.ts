import { sql } from 'kysely'
import type { LeaseTable } from '@sluice/leases/lease-table'
import type { Postgres } from './open.ts'
import { type RecurringJob, recurringJobLeases } from './recurring-jobs.ts'

/** An event of the canary that a gateway has acknowledged. Times are Unix ms. */
export interface CanaryEvent {
  siteId: string
  eventId: string
  timestamp: number
  acknowledgedAt: number
}

/** An acknowledged event with the states that were recorded. */
export interface WatchedCanaryEvent extends CanaryEvent {
  isFound: boolean
  isLost: boolean
  isDoubled: boolean
}

/** A finding of the canary about one of its events. */
export type CanaryState = 'found' | 'lost' | 'doubled'

/** The canary's events that are watched. Every method throws AppError `unavailable` while Postgres can't be reached. */
export interface CanaryStore {
  /** The canary as a job. One worker at a time runs it. */
  leases: LeaseTable<RecurringJob>
  /** Adds an event to the watched ones. Adding it again changes nothing. */
  add(event: CanaryEvent): Promise<void>
  /** The watched events of the site. */
  list(siteId: string): Promise<WatchedCanaryEvent[]>
  /** Records a state of an event. Returns false if it was recorded before, so that two workers count it once. */
  mark(event: Pick<CanaryEvent, 'siteId' | 'eventId'>, state: CanaryState, now: number): Promise<boolean>
  /**
   * Removes events that were found and were acknowledged before `acknowledgedBefore`, and all events that were
   * acknowledged before `givenUpBefore`.
   */
  remove(times: { acknowledgedBefore: number; givenUpBefore: number }): Promise<void>
}

/** Delay after a unit of the canary has failed repeatedly. */
const retryMs = 60_000

const columns = { found: 'found_at', lost: 'lost_at', doubled: 'doubled_at' } as const

/** The canary's events in this Postgres. */
export function canaryStore(postgres: Postgres): CanaryStore {
  return {
    leases: recurringJobLeases(postgres, { table: 'canary_runs', retryMs }),
    add: ({ siteId, eventId, timestamp, acknowledgedAt }) =>
      postgres.run(async (db) => {
        await sql`
          INSERT INTO canary_events (site_id, event_id, timestamp, acknowledged_at)
          VALUES (${siteId}, ${eventId}, ${new Date(timestamp)}, ${new Date(acknowledgedAt)})
          ON CONFLICT DO NOTHING`.execute(db)
      }),
    list: (siteId) =>
      postgres.run(async (db) => {
        const rows = await db.selectFrom('canary_events').selectAll().where('site_id', '=', siteId).execute()
        return rows.map((row) => ({
          siteId,
          eventId: row.event_id,
          timestamp: row.timestamp.getTime(),
          acknowledgedAt: row.acknowledged_at.getTime(),
          isFound: row.found_at !== null,
          isLost: row.lost_at !== null,
          isDoubled: row.doubled_at !== null,
        }))
      }),
    mark: ({ siteId, eventId }, state, now) =>
      postgres.run(async (db) => {
        const column = sql.ref(columns[state])
        const { numAffectedRows } = await sql`
          UPDATE canary_events SET ${column} = ${new Date(now)}
          WHERE site_id = ${siteId} AND event_id = ${eventId} AND ${column} IS NULL`.execute(db)
        return numAffectedRows === 1n
      }),
    remove: ({ acknowledgedBefore, givenUpBefore }) =>
      postgres.run(async (db) => {
        await sql`
          DELETE FROM canary_events
          WHERE acknowledged_at < ${new Date(acknowledgedBefore)} AND found_at IS NOT NULL
            OR acknowledged_at < ${new Date(givenUpBefore)}`.execute(db)
      }),
  }
}
