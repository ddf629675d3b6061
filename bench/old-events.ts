import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { waitUntil } from '@sluice/runtime/wait-until'
import { client } from '../tests/support/client.ts'
import { generateLoad } from '../tests/support/load-generator.ts'
import { batchRequests } from './batch-requests.ts'
import { startSluice } from './sluice-rig.ts'

const batchEvents = 10
const eventsPerSecond = 1_000
const analysts = 4
const pollMs = 10
/** A key's default limit. */
const oldEventsPerMinute = 10_000
const oldBatchEvents = 100
const oldest = Date.UTC(1971, 0, 2)
const youngest = Date.now() - 70 * 86_400_000
/** Duration of each of the two halves; BENCH_SECONDS=20 for a quick look. */
const seconds = Number(process.env.BENCH_SECONDS ?? 180)

/**
 * The effect of old events on others: the freshness of 1,000 events per second, first by themselves, then while one key
 * sends 10,000 events a minute whose timestamps are scattered over fifty years.
 */
export async function oldEvents(): Promise<object> {
  const rig = await startSluice()
  try {
    const sluice = client({ gatewayUrl: rig.gateway.url, queryUrl: rig.query.url, key: rig.key })
    let sentOld = 0
    let from = 0

    async function sendOldEvents(signal: AbortSignal): Promise<void> {
      for (let due = performance.now(); !signal.aborted; due += (oldBatchEvents / oldEventsPerMinute) * 60_000) {
        await pause(Math.max(0, due - performance.now()))
        const events = Array.from({ length: oldBatchEvents }, () => ({
          site_id: 'archive',
          event_type: 'x',
          event_id: randomUUID(),
          timestamp: Math.floor(oldest + Math.random() * (youngest - oldest)),
        }))
        const { status } = await sluice.collectBatch(events)
        if (status === 202) sentOld += oldBatchEvents
      }
    }

    async function measure(name: string): Promise<object> {
      const delays: number[] = []
      const ages: number[] = []
      const end = performance.now() + seconds * 1000
      const load = generateLoad({
        urls: [rig.gateway.url],
        requestFor: batchRequests({ key: rig.key, events: batchEvents, sites: 100 }),
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

    const isComplete = async (): Promise<boolean> => {
      const { status, data } = await sluice.stats({ site_id: 'archive', metric: 'event_count' })
      return status === 200 && data.complete_until > 0
    }
    await sluice.collectBatch([{ site_id: 'archive', event_type: 'first' }])
    await waitUntil(isComplete, 'complete_until is known')
    const alone = await measure('alone')
    const stopped = new AbortController()
    const sending = sendOldEvents(stopped.signal)
    const beside = await measure('beside')
    stopped.abort()
    await sending
    const stoppedAt = performance.now()
    await waitUntil(
      async () => {
        const range = { start_date: oldest, end_date: youngest }
        return (await sluice.stats({ site_id: 'archive', metric: 'event_count', ...range })).data.value === sentOld
      },
      'the old events are readable',
      600_000,
    )
    return {
      bar: { seen: '< 1.5 times', complete_until_age: '< 2 s more', old_events_seen_s: 300 },
      alone,
      beside_old_events: beside,
      old_events: sentOld,
      last_old_event_seen_s: Math.round((performance.now() - stoppedAt) / 1000),
    }
  } finally {
    await rig.stop()
  }
}

function quantiles(values: number[]): { p50: number; p99: number } {
  values.sort((a, b) => a - b)
  const at = (share: number): number => Math.round(values[Math.floor(values.length * share)] ?? 0)
  return { p50: at(0.5), p99: at(0.99) }
}
