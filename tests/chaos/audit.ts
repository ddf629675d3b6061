import { isDeepStrictEqual } from 'node:util'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { keyHash } from '@sluice/events/key-hash'
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
  /** Rows on another shard than their own. */
  misplaced: number
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
 * Compares the store, whose servers are in the order of their shards, with the list. Throws when ClickHouse has merged
 * parts of a table that replaces copies, which may hide rows that were stored twice.
 */
export async function audit(serverUrls: readonly string[], ledger: Ledger): Promise<Audit> {
  const servers = serverUrls.map((url) => openClickHouse(url))
  try {
    for (const server of servers) await assertNothingReplaced(server)
    let misplaced = 0
    const notePlace = ({ site_id, event_id }: AuditedRow, shard: number): void => {
      if (keyHash(site_id, event_id) % servers.length !== shard) misplaced++
    }
    const prefix = idPrefix(ledger.seed)
    const { differences, ...counts } = await compareRows(
      readSlices(servers, { prefix, slices: Math.ceil(ledger.events / rowsPerQuery), notePlace }),
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
      misplaced,
      differences: differences.map(({ what, key, rows }) => ({
        what,
        id: rows[0]?.event_id ?? eventId(ledger.seed, key),
        stored: rows,
        attempts: attemptsOf(ledger, key),
      })),
    }
  } finally {
    for (const server of servers) await server.close()
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

/** The rows of all shards by slices: those with the same id are in one of them. */
async function* readSlices(
  servers: readonly ClickHouse[],
  options: { prefix: string; slices: number; notePlace: (row: AuditedRow, shard: number) => void },
): AsyncGenerator<AuditedRow[]> {
  const { prefix, slices, notePlace } = options
  for (let slice = 0; slice < slices; slice++) {
    const found = await Promise.all(servers.map((server) => readSlice(server, { prefix, slices, slice })))
    for (const [shard, rows] of found.entries()) for (const row of rows) notePlace(row, shard)
    yield found.flat()
  }
}

async function readSlice(
  clickHouse: ClickHouse,
  params: { prefix: string; slices: number; slice: number },
): Promise<AuditedRow[]> {
  const { rows } = await clickHouse.query<AuditedRow>(
    `SELECT
       site_id, toString(environment) AS environment, event_type, toUnixTimestamp64Milli(timestamp) AS timestamp, event_id,
       undated, session_id, user_id, anonymous_id, url, referrer, country, device_type, properties, property_types,
       toUnixTimestamp64Milli(received_at) AS received_at
     FROM events WHERE startsWith(event_id, {prefix:String}) AND event_key % {slices:UInt32} = {slice:UInt32}`,
    params,
  )
  return rows
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
