import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { generateLoad } from '../tests/support/load-generator.ts'
import { batchRequests } from './batch-requests.ts'
import { sampleLag, startSluice } from './sluice-rig.ts'

const batchEvents = 500
const connections = 64
const warmUpSeconds = 10
/** BENCH_SECONDS=10 for a quick look; BENCH_RATE for another rate, in events a second; BENCH_SITES for one run only. */
const seconds = Number(process.env.BENCH_SECONDS ?? 60)
const rate = Number(process.env.BENCH_RATE ?? 45_000)

/**
 * S4: all processes on this machine, with the load generator. Batches arrive at a fixed rate, for one site and for
 * 1,000 sites; the lag is the age of the oldest row that the writer has not stored, measured once a second.
 */
export async function endToEnd(): Promise<object> {
  const sites = process.env.BENCH_SITES === undefined ? [1, 1_000] : [Number(process.env.BENCH_SITES)]
  const results: object[] = []
  for (const count of sites) results.push(await run(count))
  return { bar: { events_per_second: 45_000, lag_seconds: 3 }, results }
}

async function run(sites: number): Promise<object> {
  const rig = await startSluice()
  const clickHouse = openClickHouse(rig.clickHouseUrl)
  const sampler = sampleLag(rig.writer)
  try {
    const perSecond = rate / batchEvents
    const report = await generateLoad({
      urls: [rig.gateway.url],
      requestFor: batchRequests({ key: rig.key, events: batchEvents, sites }),
      connections,
      stages: [
        { perSecond: perSecond / 2, seconds: warmUpSeconds },
        { perSecond, seconds },
      ],
      from: 0,
    })
    const measured = report.answers.filter(({ dueAt }) => dueAt >= warmUpSeconds * 1000)
    const accepted = measured.filter(({ status }) => status === 202)
    const acceptedEvents = report.answers.filter(({ status }) => status === 202).length * batchEvents
    const endedAt = performance.now()
    const stored = async (): Promise<number> => {
      const { rows } = await clickHouse.query<{ rows: number }>('SELECT count() AS rows FROM events')
      return rows[0]?.rows ?? 0
    }
    while ((await stored()) < acceptedEvents && performance.now() - endedAt < 120_000) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    const latencies = accepted.map(({ dueAt, answeredAt }) => answeredAt - dueAt).sort((a, b) => a - b)
    const at = (share: number): number => Math.round(latencies[Math.floor(latencies.length * share)] ?? 0)
    return {
      sites,
      events_per_second: Math.round((accepted.length * batchEvents) / seconds),
      refused: measured.length - accepted.length + report.unsent + report.broken,
      lag_seconds_max: Math.max(...sampler.lags.slice(warmUpSeconds)),
      drained_after_seconds: Number(((performance.now() - endedAt) / 1000).toFixed(1)),
      accepted: acceptedEvents,
      stored: await stored(),
      p50_ms: at(0.5),
      p99_ms: at(0.99),
      gateway: {
        rss_mib: await rig.gateway.rssPeakMib(),
        cpu_us_per_event: await cpuPerEvent(rig.gateway, acceptedEvents),
      },
      writer: {
        rss_mib: await rig.writer.rssPeakMib(),
        cpu_us_per_event: await cpuPerEvent(rig.writer, acceptedEvents),
      },
    }
  } finally {
    await sampler.stop()
    await clickHouse.close()
    await rig.stop()
  }
}

async function cpuPerEvent(service: { figure(name: string): Promise<number> }, events: number): Promise<number> {
  return Number((((await service.figure('process_cpu_seconds_total')) / events) * 1e6).toFixed(2))
}
