import { backfillAgeMs } from '@sluice/contracts/lanes'
import { producerLines } from '../../bench/producers.ts'
import { expectedLine } from '../support/oracle/expected-line.ts'
import { drawBelow, seededRandom } from './random.ts'

/** A row of `events` as the audit reads it. */
export interface StoredEvent {
  site_id: string
  environment: string
  event_type: string
  /** Unix ms. */
  timestamp: number
  event_id: string
  undated: number
  session_id: string
  user_id: string
  anonymous_id: string
  url: string
  referrer: string
  country: string
  device_type: string
  properties: Record<string, string>
  property_types: Record<string, string>
}

export interface DrawnEvent {
  /** The event in the form of the request. */
  sent: Record<string, unknown>
  /** The expected row. An undated event has no timestamp here, because the gateway sets its time of receipt. */
  stored: Omit<StoredEvent, 'timestamp'> & { timestamp: number | undefined }
}

const dayMs = 86_400_000
/** The time of the run, because the age of an event decides through which lane it goes. */
const startedAt = Date.now()
const undatedEvery = 8
/** Old events are from the 11 months before this age, in days, so that their inserts cover several months. */
const oldDays = { from: 70, to: 400 }
/**
 * Some events become old within 10 minutes, beginning this time before the start. When such an event is sent again, the
 * copy may go through the other lane.
 */
const agingFromMs = 10_000
const agingForMs = 600_000

/**
 * Creates event number `n` of a seed. Sender and audit both call it, so that neither keeps a million events in memory.
 * The events have the shapes of real producers (bench/producers.ts), with new ids. Half of them belong to one hot site.
 * Every eighth event has no timestamp. On average, two of eight events with a timestamp are old, and one becomes old
 * during the run.
 */
export function drawEvent(seed: number, n: number): DrawnEvent {
  const random = seededRandom(seed, n)
  const site = drawBelow(random, 20)
  const timestamp = n % undatedEvery === 0 ? undefined : drawTimestamp(random)
  const shape = JSON.parse(producerLines[drawBelow(random, producerLines.length)] ?? '') as Record<string, unknown>
  delete shape.timestamp
  const sent = {
    ...shape,
    site_id: site < 10 ? 'hot' : `site-${site}`,
    event_id: eventId(seed, n),
    ...(timestamp !== undefined && { timestamp }),
  }
  const row = JSON.parse(expectedLine(sent, { receivedAt: Date.now() })) as Partial<StoredEvent> & {
    received_at: number
  }
  const { received_at: _, ...fields } = row
  return { sent, stored: { ...absent, ...fields, timestamp } }
}

/** The values that ClickHouse stores for fields that a row lacks. */
const absent: DrawnEvent['stored'] = {
  site_id: '',
  environment: '',
  event_type: '',
  timestamp: undefined,
  event_id: '',
  undated: 0,
  session_id: '',
  user_id: '',
  anonymous_id: '',
  url: '',
  referrer: '',
  country: '',
  device_type: '',
  properties: {},
  property_types: {},
}

function drawTimestamp(random: () => number): number {
  const kind = drawBelow(random, 8)
  if (kind < 2) return startedAt - (oldDays.from + drawBelow(random, oldDays.to - oldDays.from)) * dayMs
  if (kind < 3) return startedAt - backfillAgeMs - agingFromMs + drawBelow(random, agingForMs)
  return startedAt - drawBelow(random, dayMs)
}

/** Runs with different seeds may share a store, so the prefix contains the seed. */
export function eventId(seed: number, n: number): string {
  return `${idPrefix(seed)}${n}`
}

export function idPrefix(seed: number): string {
  return `run${seed}-`
}
