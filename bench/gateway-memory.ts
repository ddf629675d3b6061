import { generateLoad } from '../tests/support/load-generator.ts'
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
 * The memory of a gateway during 10 minutes at 5 times its capacity: batches are sent at five times the peak rate, each
 * on a free connection. No writer runs, so that only the gateway and Kafka use the machine.
 */
export async function gatewayMemory(): Promise<object> {
  const rig = await startSluice()
  let sampler: NodeJS.Timeout | undefined
  const samples: Record<'second' | 'rss' | 'heap' | 'external', number>[] = []
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
    const sample = async (): Promise<void> => {
      const second = Math.round((performance.now() - beganAt) / 1000)
      const [rss, heap, external] = await Promise.all(
        ['process_resident_memory_bytes', 'nodejs_heap_size_total_bytes', 'nodejs_external_memory_bytes'].map((name) =>
          rig.gateway.figure(name),
        ),
      )
      samples.push({ second, rss: mib(rss), heap: mib(heap), external: mib(external) })
    }
    sampler = setInterval(() => {
      sample().catch(() => undefined)
    }, sampleMs)
    const statuses: Record<number, number> = {}
    const report = await generateLoad({
      ...request,
      connections,
      stages: [{ perSecond: times * peakPerSecond, seconds }],
      from: peak.to,
    })
    for (const { status } of report.answers) statuses[status] = (statuses[status] ?? 0) + 1
    const maxByMinute = (figure: 'rss' | 'heap' | 'external'): number[] =>
      Array.from({ length: Math.ceil(seconds / 60) }, (_, minute) =>
        Math.max(0, ...samples.filter(({ second }) => Math.floor(second / 60) === minute).map((each) => each[figure])),
      )
    const goodput = (report.answers.filter(({ status }) => status === 202).length / seconds) * batchEvents
    return {
      peak_events_per_second: Math.round(peakPerSecond * batchEvents),
      offered_events_per_second: Math.round(times * peakPerSecond * batchEvents),
      goodput_events_per_second: Math.round(goodput),
      statuses,
      broken: report.broken,
      found_no_connection: report.unsent,
      mib_max_by_minute: {
        rss: maxByMinute('rss'),
        heap: maxByMinute('heap'),
        external: maxByMinute('external'),
      },
    }
  } finally {
    clearInterval(sampler)
    await rig.stop()
  }
}

const mib = (bytes = Number.NaN): number => Math.round(bytes / 2 ** 20)
