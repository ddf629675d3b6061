import type { EventRow } from '@sluice/contracts/event-columns'
import type { Block } from '@sluice/event-log/block'
import { encodeEvent } from '@sluice/events/encode-event'
import { freshLines } from './shapes.ts'

/** The site, time and id of event number n. */
export type Shape = (n: number) => Pick<EventRow, 'site_id' | 'timestamp' | 'event_id'>

const startedAt = Date.UTC(2026, 0, 15, 12)
const id = (n: number): string => `bench-${n.toString(36).padStart(8, '0')}`
const fiveYearsMs = 5 * 365 * 86_400_000

/** Events of one site, 50,000 per second. */
export const hotSite: Shape = (n) => ({ site_id: 'hot', timestamp: startedAt + Math.floor(n / 50), event_id: id(n) })

/** Events of 1,000 sites at the same rate. */
export const thousandSites: Shape = (n) => ({ ...hotSite(n), site_id: `site-${(n * 7_919) % 1_000}` })

/** Events of one site, each in another month of five years than the event before. */
export const scattered: Shape = (n) => ({
  site_id: 'hot',
  timestamp: startedAt - ((n * 2_654_435_761) % fiveYearsMs),
  event_id: id(n),
})

/** A row of some 380 bytes, as the gateway writes it. */
export function benchRow(n: number, shape: Shape): EventRow {
  return {
    ...shape(n),
    environment: 'prod',
    event_type: n % 9 === 0 ? 'purchase' : 'page_view',
    session_id: `session-${n % 5_000}`,
    user_id: `user-${n % 2_000}`,
    url: `https://shop.example.com/products/${n % 500}?utm_source=newsletter`,
    referrer: 'https://www.example.org/search',
    country: n % 3 === 0 ? 'DE' : 'US',
    device_type: n % 2 === 0 ? 'mobile' : 'desktop',
    properties: { plan: 'pro', price: '19.99', quantity: String(n % 5) },
    property_types: { price: 'number', quantity: 'number' },
    received_at: startedAt + Math.floor(n / 50),
  }
}

/**
 * Rows number `from` to `from + count` of events in the shapes of real producers, as the gateway writes them. The
 * events are repeated in turn, with new ids.
 */
export function producerRows(from: number, count: number): Buffer {
  let text = ''
  for (let n = from; n < from + count; n++) {
    const line = encodedLines[n % encodedLines.length] ?? ''
    text += line.replace(passSuffix, `-${Math.floor(n / encodedLines.length)}"`)
  }
  return Buffer.from(text)
}

const pass = 'pass'
const passSuffix = new RegExp(`-${pass}"|(?<="event_id":"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21})"`)
const encodedLines = freshLines(pass).map(
  (line) => encodeEvent(JSON.parse(line), { receivedAt: Date.now(), environment: 'prod' }).line,
)

export function benchLines(from: number, count: number, shape: Shape): Buffer {
  let text = ''
  for (let n = from; n < from + count; n++) text += `${JSON.stringify(benchRow(n, shape))}\n`
  return Buffer.from(text)
}

export function benchBlock(partition: number, from: number, rows: number, shape: Shape): Block {
  const payload = benchLines(from, rows, shape)
  return { partition, headers: { v: 1, rows, bytes: payload.length }, payload }
}
