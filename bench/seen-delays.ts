import { setTimeout as pause } from 'node:timers/promises'
import { client } from '../tests/support/client.ts'
import { generateLoad } from '../tests/support/load-generator.ts'
import { batchRequests } from './batch-requests.ts'
import type { SluiceRig } from './sluice-rig.ts'

const batchEvents = 10
const eventsPerSecond = 1_000
const analysts = 4
const pollMs = 10

/** How soon events are seen. */
export interface SeenDelays {
  samples: number
  /** From an event's 202 until an answer counts it. */
  seen_ms: Quantiles
  /** How far the `complete_until` of the answers is behind. */
  complete_until_age_ms: Quantiles
}

interface Quantiles {
  p50: number
  p99: number
}

/**
 * Measures S5 several times on one Sluice, while it may do other work: 1,000 events arrive per second, and four
 * analysts, each with a different site, repeatedly send an event and query the site until the event is counted. `name`
 * gives each measurement new sites.
 */
export function seenDelays({ gateway, query, key }: Pick<SluiceRig, 'gateway' | 'query' | 'key'>) {
  const sluice = client({ gatewayUrl: gateway.url, queryUrl: query.url, key })
  let from = 0

  return async (name: string, seconds: number): Promise<SeenDelays> => {
    const delays: number[] = []
    const ages: number[] = []
    const end = performance.now() + seconds * 1000
    const load = generateLoad({
      urls: [gateway.url],
      requestFor: batchRequests({ key, events: batchEvents, sites: 100 }),
      connections: 8,
      stages: [{ perSecond: eventsPerSecond / batchEvents, seconds }],
      from,
    })
    const analyse = async (_: unknown, analyst: number): Promise<void> => {
      const site_id = `analyst-${name}-${analyst}`
      for (let sent = 1; performance.now() < end; sent++) {
        const { status } = await sluice.collectBatch([{ site_id, event_type: 'seen' }])
        if (status !== 202) throw new Error(`an event got ${status}`)
        const acceptedAt = performance.now()
        for (;;) {
          const range = { start_date: Date.now() - 3_600_000 }
          const { status: answered, data } = await sluice.stats({ site_id, metric: 'event_count', ...range })
          if (answered === 200) ages.push(Date.now() - data.complete_until)
          if (answered === 200 && data.value >= sent) break
          await pause(pollMs)
        }
        delays.push(performance.now() - acceptedAt)
      }
    }
    await Promise.all(Array.from({ length: analysts }, analyse))
    from = (await load).to
    return { samples: delays.length, seen_ms: quantiles(delays), complete_until_age_ms: quantiles(ages) }
  }
}

function quantiles(values: number[]): Quantiles {
  values.sort((a, b) => a - b)
  const at = (share: number): number => Math.round(values[Math.floor(values.length * share)] ?? 0)
  return { p50: at(0.5), p99: at(0.99) }
}
