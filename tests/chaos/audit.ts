import { isDeepStrictEqual } from 'node:util'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/client'
import { compareRows, type Difference } from '../support/compare-rows.ts'
import { drawEvent, eventId, idPrefix, type StoredEvent } from './events.ts'
import { rowIdColumn } from './rig-parts.ts'
import type { Ledger } from './sender.ts'

/** The differences between the stored rows and the sender's list of acknowledged events, found event by event. */
export interface Audit {
  events: number
  rows: number
  lost: number
  twice: number
  altered: number
  /** Rows of events that were never sent. */
  foreign: number
  /** The first differences, with the attempts to send the event. */
  differences: readonly ReportedDifference[]
}

interface ReportedDifference {
  what: Difference<AuditedRow, number>['what']
  id: string
  /** The rows found. */
  stored: readonly AuditedRow[]
  /** The attempts of the request that contained the event: Unix ms, duration, outcome. */
  attempts: readonly string[]
}

interface AuditedRow extends StoredEvent {
  received_at: number
}

/** Rows that one query reads, approximately. */
const rowsPerQuery = 50_000
/** Allowed difference between times of receipt and the sender's clock, which runs on the same machine. */
const clockSlackMs = 1_000

/**
 * Compares the store with the list. Throws when ClickHouse has merged parts of a table that replaces copies, which may
 * hide rows that were stored twice.
 */
export async function audit(clickHouseUrl: string, ledger: Ledger): Promise<Audit> {
  const clickHouse = openClickHouse(clickHouseUrl)
  try {
    await assertNothingReplaced(clickHouse)
    const prefix = idPrefix(ledger.seed)
    const { differences, ...counts } = await compareRows(
      readSlices(clickHouse, { prefix, slices: Math.ceil(ledger.events / rowsPerQuery) }),
      {
        keyOf: (row) => Number(row.event_id.slice(prefix.length)),
        expected: Array(ledger.events).keys(),
        isKnown: (n) => n < ledger.events,
        isAsSent: (row, n) => isAsSent(row, n, ledger),
      },
    )
    return {
      events: ledger.events,
      ...counts,
      differences: differences.map(({ what, key, rows }) => ({
        what,
        id: rows[0]?.event_id ?? eventId(ledger.seed, key),
        stored: rows,
        attempts: attemptsOf(ledger, key),
      })),
    }
  } finally {
    await clickHouse.close()
  }
}

/** A part that was merged holds blocks of several inserts, so its first and last block numbers differ. */
async function assertNothingReplaced(clickHouse: ClickHouse): Promise<void> {
  const { rows } = await clickHouse.query<{ name: string }>(
    `SELECT name FROM system.parts
     WHERE database = currentDatabase() AND table = 'events' AND min_block_number != max_block_number
       AND NOT (SELECT sorting_key LIKE {key:String} FROM system.tables WHERE database = currentDatabase() AND name = 'events')
     LIMIT 1`,
    { key: `%${rowIdColumn}%` },
  )
  if (rows[0]) throw new Error(`ClickHouse merged parts, e.g. ${rows[0].name}: what it stored twice may be hidden`)
}

/** The rows by slices: those with the same id are in one of them. */
async function* readSlices(
  clickHouse: ClickHouse,
  { prefix, slices }: { prefix: string; slices: number },
): AsyncGenerator<AuditedRow[]> {
  for (let slice = 0; slice < slices; slice++) {
    const { rows } = await clickHouse.query<AuditedRow>(
      `SELECT
         site_id, toString(environment) AS environment, event_type, toUnixTimestamp64Milli(timestamp) AS timestamp, event_id,
         undated, session_id, user_id, anonymous_id, url, referrer, country, device_type, properties, property_types,
         toUnixTimestamp64Milli(received_at) AS received_at
       FROM events WHERE startsWith(event_id, {prefix:String}) AND event_key % {slices:UInt32} = {slice:UInt32}`,
      { prefix, slices, slice },
    )
    yield rows
  }
}

function isAsSent({ received_at, ...row }: AuditedRow, n: number, { seed, beganAt, endedAt }: Ledger): boolean {
  if (received_at < beganAt - clockSlackMs || received_at > endedAt + clockSlackMs) return false
  const { stored } = drawEvent(seed, n)
  return isDeepStrictEqual(row, { ...stored, timestamp: stored.timestamp ?? received_at })
}

function attemptsOf(ledger: Ledger, n: number): string[] {
  const request = ledger.requests.find(({ from, to }) => from <= n && n < to)
  return request?.attempts.map(({ at, ms, outcome }) => `${at} +${ms} ms: ${outcome}`) ?? []
}
