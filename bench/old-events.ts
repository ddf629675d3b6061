import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { waitUntil } from '@sluice/runtime/wait-until'
import { client } from '../tests/support/client.ts'
import { seenDelays } from './seen-delays.ts'
import { startSluice } from './sluice-rig.ts'

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
    const measure = seenDelays(rig)

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

    const isComplete = async (): Promise<boolean> => {
      const { status, data } = await sluice.stats({ site_id: 'archive', metric: 'event_count' })
      return status === 200 && data.complete_until > 0
    }
    await sluice.collectBatch([{ site_id: 'archive', event_type: 'first' }])
    await waitUntil(isComplete, 'complete_until is known')
    const alone = await measure('alone', seconds)
    const stopped = new AbortController()
    const sending = sendOldEvents(stopped.signal)
    const beside = await measure('beside', seconds)
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
