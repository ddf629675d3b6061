import fc from 'fast-check'
import type { Client } from './client.ts'

/** An event as sent, and what must be found of it in the store. */
export interface SentEvent {
  event_id: string
  site_id: string
  timestamp: number
  event_type: string
  user_id: string
  properties: { n: number }
}

export interface SenderOptions {
  seed: number
  events: number
  batchEvents: number
  /** Requests under way at a time. */
  concurrency: number
  /** Share of the acknowledged batches that are sent once more. */
  resendShare: number
  /** Called after each acknowledgement with the number of acknowledged events. */
  onProgress?: (acknowledged: number) => void
}

/** The sender's ledger: every event that was answered 202, at least once. */
export interface Ledger {
  acknowledged: SentEvent[]
  /** Requests that got no 202 and were repeated with the same ids. */
  repeats: number
  resent: number
}

/**
 * Sends batches until every event is acknowledged, as a careful producer does: a request without a 202 is repeated with
 * the same `event_id`s. Some acknowledged batches are sent again on purpose. Rejects after `deadlineMs` without an answer.
 */
export async function sendAll(client: () => Client, options: SenderOptions, deadlineMs = 120_000): Promise<Ledger> {
  const ledger: Ledger = { acknowledged: [], repeats: 0, resent: 0 }
  const batches = drawBatches(options)
  const deadline = Date.now() + deadlineMs
  let next = 0

  async function sendUntilAcknowledged(batch: readonly SentEvent[]): Promise<void> {
    for (;;) {
      const status = await client()
        .collectBatch(batch)
        .then((answer) => answer.status)
        .catch(() => undefined)
      if (status === 202) return
      if (status !== undefined && status < 500) throw new Error(`a good batch was answered ${status}`)
      if (Date.now() > deadline) throw new Error('the gateway took nothing for too long')
      ledger.repeats++
    }
  }

  async function work(): Promise<void> {
    for (let batch = batches[next++]; batch !== undefined; batch = batches[next++]) {
      await sendUntilAcknowledged(batch.events)
      ledger.acknowledged.push(...batch.events)
      if (batch.resend) {
        await sendUntilAcknowledged(batch.events)
        ledger.resent++
      }
      options.onProgress?.(ledger.acknowledged.length)
    }
  }

  await Promise.all(Array.from({ length: options.concurrency }, work))
  return ledger
}

/** One hot site and some small ones, times within an hour, from a seeded source. */
function drawBatches({
  seed,
  events,
  batchEvents,
  resendShare,
}: SenderOptions): { events: SentEvent[]; resend: boolean }[] {
  const start = Date.UTC(2026, 0, 15)
  const draw = fc.sample(
    fc.record({
      site: fc.integer({ min: 0, max: 19 }),
      offsetMs: fc.integer({ min: 0, max: 3_599_999 }),
      user: fc.integer({ min: 0, max: 999 }),
    }),
    { seed, numRuns: events },
  )
  const all = draw.map(({ site, offsetMs, user }, n): SentEvent => ({
    event_id: `e${n}`,
    site_id: site < 10 ? 'hot' : `site-${site}`,
    timestamp: start + offsetMs,
    event_type: n % 7 === 0 ? 'purchase' : 'page_view',
    user_id: `user-${user}`,
    properties: { n },
  }))
  const resends = fc.sample(fc.double({ min: 0, max: 1, noNaN: true }), {
    seed,
    numRuns: Math.ceil(events / batchEvents),
  })
  return resends.map((drawn, index) => ({
    events: all.slice(index * batchEvents, (index + 1) * batchEvents),
    resend: drawn < resendShare,
  }))
}
