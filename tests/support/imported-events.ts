import type { ClickHouse } from '@sluice/event-store/clickhouse/client'

/** The event of record `n` of a generated file; every tenth record is a bad one. */
export interface GeneratedEvent {
  id: string
  type: string
  timestamp: number
  url: string
  country: string
  plan: string
}

/** The events of a file, whose times are scattered over a year before `end` (Unix ms). */
export function generateEvents(count: number, end = Date.UTC(2026, 0, 1)): GeneratedEvent[] {
  return Array.from({ length: count }, (_, n) => ({
    id: `event-${n}`,
    type: ['page_view', 'click', 'purchase'][n % 3] ?? '',
    timestamp: end - ((n * 7_919_003) % (365 * 86_400_000)),
    url: `https://shop.example/ü?page=${n % 97}`,
    country: ['DE', 'FR', ''][n % 3] ?? '',
    plan: ['free', 'pro, "yearly"'][n % 2] ?? '',
  }))
}

const header = 'event_id,event_type,timestamp_ms,url,country,properties.plan\n'

/** The events as CSV, with records that are refused after each tenth: their lines are `badLines`. */
export function* csvOf(events: readonly GeneratedEvent[]): Generator<string> {
  yield header
  for (const [n, { id, type, timestamp, url, country, plan }] of events.entries()) {
    yield `${id},${type},${timestamp},${url},${country},"${plan.replaceAll('"', '""')}"\n`
    if (n % 10 === 9) yield `bad-${n},page_view,yesterday,,,\n`
  }
}

/** The lines of the records that `csvOf` makes bad. */
export function badLines(count: number): number[] {
  return Array.from({ length: Math.floor(count / 10) }, (_, n) => 1 + 11 * (n + 1))
}

/** The events as NDJSON. */
export function* ndjsonOf(events: readonly GeneratedEvent[]): Generator<string> {
  for (const { id, type, timestamp, url, country, plan } of events) {
    const fields = { event_id: id, event_type: type, timestamp_ms: timestamp, url, country, properties: { plan } }
    yield `${JSON.stringify(fields)}\n`
  }
}

/** One text for each event, so that sets can be compared. */
export function expectedRows(events: readonly GeneratedEvent[]): string[] {
  return events
    .map(({ id, type, timestamp, url, country, plan }) => JSON.stringify([id, type, timestamp, url, country, plan]))
    .sort()
}

/** The stored rows of a site in the form of `expectedRows`; a row that is stored twice is there twice. */
export async function storedRows(clickHouse: Pick<ClickHouse, 'query'>, site: string): Promise<string[]> {
  const { rows } = await clickHouse.query<Record<string, unknown>>(
    `SELECT event_id, event_type, toUnixTimestamp64Milli(timestamp) AS at, url, country, properties['plan'] AS plan
     FROM events WHERE site_id = {site:String}`,
    { site },
  )
  return rows.map((row) => JSON.stringify(Object.values(row))).sort()
}
