import { isDeepStrictEqual } from 'node:util'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/client'
import { drawEvent, eventId, idPrefix, type StoredEvent } from './events.ts'
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
  differences: Difference[]
}

interface Difference {
  what: 'lost' | 'twice' | 'altered' | 'foreign'
  id: string
  /** The rows found. */
  stored: readonly AuditedRow[]
  /** The attempts of the request that contained the event: Unix ms, duration, outcome. */
  attempts: readonly string[]
}

interface AuditedRow extends StoredEvent {
  received_at: number
}

const shownDifferences = 10
/** Rows that one query reads, approximately. */
const rowsPerQuery = 50_000
/** Allowed difference between times of receipt and the sender's clock, which runs on the same machine. */
const clockSlackMs = 1_000

/** Compares the store with the list. Throws when ClickHouse has merged parts, which may hide rows that were stored twice. */
export async function audit(clickHouseUrl: string, ledger: Ledger): Promise<Audit> {
  const clickHouse = openClickHouse(clickHouseUrl)
  try {
    await assertUnmerged(clickHouse)
    const prefix = idPrefix(ledger.seed)
    const numberOf = (id: string): number => Number(id.slice(prefix.length))
    const found = new Uint8Array(ledger.events)
    const result: Audit = { events: ledger.events, rows: 0, lost: 0, twice: 0, altered: 0, foreign: 0, differences: [] }
    const report = (what: Difference['what'], id: string, stored: readonly AuditedRow[]): void => {
      result[what]++
      if (result.differences.length < shownDifferences)
        result.differences.push({ what, id, stored, attempts: attemptsOf(ledger, numberOf(id)) })
    }

    for await (const rows of readById(clickHouse, { prefix, slices: Math.ceil(ledger.events / rowsPerQuery) })) {
      for (const [id, stored] of rows) {
        result.rows += stored.length
        const n = numberOf(id)
        if (!(n < ledger.events)) {
          report('foreign', id, stored)
          continue
        }
        found[n] = 1
        if (stored.length > 1) report('twice', id, stored)
        if (!stored.every((row) => isAsSent(row, n, ledger))) report('altered', id, stored)
      }
    }
    for (const [n, isFound] of found.entries()) if (isFound === 0) report('lost', eventId(ledger.seed, n), [])
    return result
  } finally {
    await clickHouse.close()
  }
}

/** A part that was merged holds blocks of several inserts, so its first and last block numbers differ. */
async function assertUnmerged(clickHouse: ClickHouse): Promise<void> {
  const { rows } = await clickHouse.query<{ name: string }>(`
    SELECT name FROM system.parts
    WHERE database = currentDatabase() AND table = 'events' AND min_block_number != max_block_number LIMIT 1`)
  if (rows[0]) throw new Error(`ClickHouse merged parts, e.g. ${rows[0].name}: what it stored twice may be hidden`)
}

async function* readById(
  clickHouse: ClickHouse,
  { prefix, slices }: { prefix: string; slices: number },
): AsyncGenerator<Map<string, AuditedRow[]>> {
  for (let slice = 0; slice < slices; slice++) {
    const { rows } = await clickHouse.query<AuditedRow>(
      `SELECT
         site_id, toString(environment) AS environment, event_type, toUnixTimestamp64Milli(timestamp) AS timestamp, event_id,
         undated, session_id, user_id, anonymous_id, url, referrer, country, device_type, properties, property_types,
         toUnixTimestamp64Milli(received_at) AS received_at
       FROM events WHERE startsWith(event_id, {prefix:String}) AND event_key % {slices:UInt32} = {slice:UInt32}`,
      { prefix, slices, slice },
    )
    const byId = new Map<string, AuditedRow[]>()
    for (const row of rows) {
      const same = byId.get(row.event_id)
      if (same) same.push(row)
      else byId.set(row.event_id, [row])
    }
    yield byId
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
