import { client } from '../tests/support/client.ts'
import { generateLoad } from '../tests/support/load-generator.ts'
import { batchRequests } from './batch-requests.ts'
import { startSluice } from './sluice-rig.ts'

/** BENCH_RATE=22500 for half of the load of S4, in the batches of S4. */
const eventsPerSecond = Number(process.env.BENCH_RATE ?? 1_000)
const batchEvents = eventsPerSecond > 5_000 ? 500 : 10
const analysts = 4
const pollMs = 10
/** BENCH_SECONDS=10 for a quick look. */
const seconds = Number(process.env.BENCH_SECONDS ?? 60)

/**
 * S5: the time from an event's 202 until /api/v1/stats counts it, while 1,000 events arrive per second, and how far the
 * `complete_until` of these answers is behind. Four analysts, each with a different site, repeatedly send an event and
 * query the site until the event is counted.
 */
export async function freshness(): Promise<object> {
  const rig = await startSluice()
  try {
    const load = generateLoad({
      urls: [rig.gateway.url],
      requestFor: batchRequests({ key: rig.key, events: batchEvents, sites: 100 }),
      connections: 8,
      stages: [{ perSecond: eventsPerSecond / batchEvents, seconds }],
      from: 0,
    })
    const sluice = client({ gatewayUrl: rig.gateway.url, queryUrl: rig.query.url, key: rig.key })
    const delays: number[] = []
    const behind: number[] = []
    const end = performance.now() + seconds * 1000
    const queryUntilCounted = async (_: unknown, analyst: number): Promise<void> => {
      const site_id = `analyst-${analyst}`
      for (let sent = 1; performance.now() < end; sent++) {
        const { status } = await sluice.collectBatch([{ site_id, event_type: 'seen' }])
        if (status !== 202) throw new Error(`an event got ${status}`)
        const acceptedAt = performance.now()
        for (;;) {
          const answer = await sluice.stats({ site_id, metric: 'event_count', start_date: Date.now() - 3_600_000 })
          if (answer.status === 200 && answer.data.complete_until > 0) {
            behind.push(answer.data.timestamp - answer.data.complete_until)
          }
          if (answer.status === 200 && answer.data.value >= sent) break
          await new Promise((resolve) => setTimeout(resolve, pollMs))
        }
        delays.push(performance.now() - acceptedAt)
      }
    }
    await Promise.all(Array.from({ length: analysts }, queryUntilCounted))
    const { answers } = await load
    return {
      bar: { visible: { p50_ms: 300, p99_ms: 1_000 }, complete_until_behind: { p50_ms: 3_500, p99_ms: 5_000 } },
      events_per_second: eventsPerSecond,
      accepted: answers.filter(({ status }) => status === 202).length * batchEvents,
      visible: distribution(delays),
      complete_until_behind: distribution(behind),
    }
  } finally {
    await rig.stop()
  }
}

function distribution(times: readonly number[]): object {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): number => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0)
  return { samples: sorted.length, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: Math.round(sorted.at(-1) ?? 0) }
}
