import type { EventRow } from '@sluice/contracts/event-columns'
import { encodeEvent } from '@sluice/events/encode-event'
import type { RawEvent } from '../../support/oracle/expected-stats.ts'

/** An event as POST /collect/batch takes it. */
export interface SentEvent {
  site_id: string
  event_type: string
  timestamp: number
  event_id: string
  [field: string]: unknown
}

export interface Seed {
  siteId: string
  /** Unix ms: all events are earlier. */
  now: number
  /** Default 35. */
  days?: number
  /** Default 700, of about 3.5 events each. */
  sessions?: number
  /** Whether an eighth of the sessions lies in the last 30 hours, for comparisons of days; true unless set. */
  hasBusyEnd?: boolean
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs

const countries = ['DE', 'DE', 'DE', 'FR', 'FR', 'US', 'US', 'IN', 'GB', 'BR', 'JP', 'CH', 'PL']
const devices = ['desktop', 'desktop', 'desktop', 'mobile', 'mobile', 'tablet']
const referrers = [
  '',
  '',
  'https://www.google.com/',
  'https://www.google.com/',
  'https://news.ycombinator.com/item?id=1',
  'https://duckduckgo.com/',
  'https://github.com/',
  'https://lobste.rs/',
]
const pages = [
  '/',
  '/',
  '/pricing',
  '/blog/first-post',
  '/blog/how-we-count',
  '/docs/start',
  '/docs/api',
  '/about',
  '/shop',
  '/shop/basket',
  '/shop/checkout',
  '/contact',
]

/**
 * Events of a small site over some weeks, the same in every run except that they end at `now`: sessions of 1 to 8
 * events, more by day than by night and fewer at weekends, users who come back, several countries, devices, paths and
 * referrers, properties of each type, and enough sessions of the last hours for a comparison of today with yesterday.
 */
export function seededEvents({ siteId, now, days = 35, sessions = 700, hasBusyEnd = true }: Seed): SentEvent[] {
  const draw = drawFrom(20_261_122)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(draw() * values.length)] as T
  const events: SentEvent[] = []
  for (let session = 0; session < sessions; session++) {
    const isRecent = hasBusyEnd && session % 8 === 0
    let at = isRecent ? now - 30 * hourMs * draw() : startOf(now, days, draw)
    const user = Math.floor(draw() * draw() * (sessions / 4))
    const [country, device, referrer] = [pick(countries), pick(devices), pick(referrers)]
    const length = 1 + Math.floor(draw() * draw() * 8)
    for (let place = 0; place < length; place++) {
      const timestamp = Math.floor(at)
      at += 4_000 + 90_000 * draw()
      const path = pick(pages)
      const kind = place === 0 || draw() < 0.75 ? 'page_view' : place > 2 && draw() < 0.5 ? 'purchase' : 'click'
      const plan = user % 5 === 0 ? 'pro' : 'free'
      const price = Math.floor(draw() * 10_000) / 100
      if (timestamp >= now) break
      events.push({
        site_id: siteId,
        event_type: user % 7 === 0 && place === 1 ? 'signup' : kind,
        timestamp,
        event_id: `${siteId}-${session}-${place}`,
        session_id: `s-${session}`,
        ...(user % 3 === 0 ? { anonymous_id: `a-${user}` } : { user_id: `u-${user}` }),
        url: `https://example.com${path}`,
        ...(place === 0 && referrer !== '' && { referrer }),
        country,
        device_type: device,
        properties: { plan, trial: user % 2 === 0, ...(kind === 'purchase' && { price }) },
      })
    }
  }
  return events
}

/** A moment of the range, at a likely hour and weekday. */
function startOf(now: number, days: number, draw: () => number): number {
  for (;;) {
    const at = now - days * dayMs * draw()
    const date = new Date(at)
    const byHour = 0.2 + 0.8 * Math.sin((Math.PI * date.getUTCHours()) / 24)
    const byWeekday = date.getUTCDay() % 6 === 0 ? 0.5 : 1
    if (draw() < byHour * byWeekday) return at
  }
}

/** Pseudo-random numbers from 0 to 1 (mulberry32), the same for the same seed. */
function drawFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The events as the oracle takes them. */
export function rawEvents(events: readonly SentEvent[]): RawEvent[] {
  return events.map((event) => {
    const { line } = encodeEvent(event, { receivedAt: event.timestamp, environment: 'prod' })
    return JSON.parse(line) as EventRow
  })
}
