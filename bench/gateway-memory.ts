import { generateLoad } from '../tests/harness/load-generator.ts'
import { batchRequests } from './batch-requests.ts'
import { startSluice } from './sluice-rig.ts'

const batchEvents = 100
const connections = 512
const peakSeconds = 10
const sampleMs = 5_000
const times = 5
/** BENCH_SECONDS=60 for a quick look. */
const seconds = Number(process.env.BENCH_SECONDS ?? 600)

/**
 * Memory of a gateway for 10 minutes at 5 times its capacity: batches become due at five times the rate of the peak, over
 * as many connections as wait for an answer. Without a writer, so that the gateway and Kafka have the machine.
 */
export async function gatewayMemory(): Promise<object> {
  const rig = await startSluice()
  const samples: { second: number; rssMib: number }[] = []
  try {
    await rig.writer.stop()
    const request = {
      urls: [rig.gateway.url],
      requestFor: batchRequests({ key: rig.key, events: batchEvents, sites: 1 }),
    }
    const warm = { ...request, connections: 16, from: 0 }
    const peak = await generateLoad({ ...warm, stages: [{ perSecond: Infinity, seconds: peakSeconds }] })
    const peakPerSecond = peak.answers.length / peakSeconds

    const beganAt = performance.now()
    const sampler = setInterval(() => {
      void rig.gateway.figure('process_resident_memory_bytes').then(
        (rss) =>
          samples.push({ second: Math.round((performance.now() - beganAt) / 1000), rssMib: Math.round(rss / 2 ** 20) }),
        () => undefined,
      )
    }, sampleMs)
    const statuses: Record<number, number> = {}
    const report = await generateLoad({
      ...request,
      connections,
      stages: [{ perSecond: times * peakPerSecond, seconds }],
      from: peak.to,
    })
    clearInterval(sampler)
    for (const { status } of report.answers) statuses[status] = (statuses[status] ?? 0) + 1
    const goodput = (report.answers.filter(({ status }) => status === 202).length / seconds) * batchEvents
    return {
      peak_events_per_second: Math.round(peakPerSecond * batchEvents),
      offered_events_per_second: Math.round(times * peakPerSecond * batchEvents),
      goodput_events_per_second: Math.round(goodput),
      statuses,
      broken: report.broken,
      found_no_connection: report.unsent,
      rss_mib_by_minute: Array.from({ length: Math.floor(seconds / 60) }, (_, minute) =>
        Math.max(0, ...samples.filter(({ second }) => Math.floor(second / 60) === minute).map(({ rssMib }) => rssMib)),
      ),
      rss_mib_max: Math.max(...samples.map(({ rssMib }) => rssMib)),
    }
  } finally {
    await rig.stop()
  }
}
