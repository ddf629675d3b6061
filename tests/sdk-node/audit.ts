import { isDeepStrictEqual } from 'node:util'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import type { Receipt } from '@sluice/node'
import type { Outcome } from '../chaos/scenario.ts'
import { compareRows } from '../support/compare-rows.ts'
import { contentOf } from './content.ts'

/** What the processes of a ledger have reported. */
export interface Noted {
  /** The receipts of events whose `track` had returned, by their keys. */
  receipts: Map<string, Receipt>
  /** The numbers of the processes that have tracked events. */
  started: Set<number>
  /** By how many ms the clock of each process was ahead. */
  clocks: Map<number, number>
  /** How many errors of each code the processes got. */
  errors: Map<string, number>
}

interface Row {
  event_id: string
  timestamp: number
  event_type: string
  user_id: string
  session_id: string
  url: string
  properties: Record<string, string>
}

/** How much the corrected time of a refused event may differ from the time of its tracking. */
const restampedMsMax = 600_000
const dayMs = 86_400_000

/** Compares the rows of a site with what was reported: by keys, both ways, and field by field. */
export async function auditLedger(
  clickHouse: Pick<ClickHouse, 'query'>,
  site: string,
  { receipts, clocks }: Noted,
): Promise<Outcome & { problems: string[] }> {
  const { rows, lost, twice, altered, differences } = await compareRows([await readRows(clickHouse, site)], {
    keyOf: ({ properties }) => properties.key ?? '',
    expected: receipts.keys(),
    isAsSent: (row, key) => isAsTracked(row, key, receipts.get(key), clocks),
  })
  const counts = { lost, twice, altered }
  const problems = Object.entries(counts).flatMap(([what, count]) => (count > 0 ? [`${count} events ${what}`] : []))
  if (receipts.size === 0) problems.push('no event was reported')
  return {
    figures: { reported: receipts.size, rows, ...counts },
    problems,
    details: differences.map((each) => ({ ...each, receipt: receipts.get(each.key) })),
  }
}

function isAsTracked(row: Row, key: string, receipt: Receipt | undefined, clocks: Noted['clocks']): boolean {
  const { type, properties, fields } = contentOf(key)
  const { event_id, timestamp, event_type, user_id, session_id, url } = row
  const expected = { ...properties, size: String(properties.size) }
  if (event_type !== type || !isDeepStrictEqual({ ...row.properties }, expected)) return false
  if (!isDeepStrictEqual({ user_id, session_id, url }, fields)) return false
  if (!receipt) return true
  const ahead = clocks.get(Number(key.split('-')[0])) ?? 0
  const isTime =
    timestamp === receipt.timestamp ||
    (ahead > dayMs && Math.abs(receipt.timestamp - ahead - timestamp) < restampedMsMax && timestamp < receipt.timestamp)
  return event_id === receipt.event_id && isTime
}

async function readRows(clickHouse: Pick<ClickHouse, 'query'>, site: string): Promise<Row[]> {
  const { rows } = await clickHouse.query<Row>(
    `SELECT event_id, toUnixTimestamp64Milli(timestamp) AS timestamp, event_type, user_id, session_id, url, properties
     FROM events WHERE site_id = {site:String} AND event_type != 'sluice_dropped'`,
    { site },
  )
  return rows
}
