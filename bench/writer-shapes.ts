import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { type EventInserter, openEventInserterAt } from '@sluice/event-store/insert/event-inserter'
import { createMetrics } from '@sluice/runtime/metrics'
import { eventConsumer } from '@sluice/writer/consume-events'
import { livePolicy } from '@sluice/writer/lane-policy'
import { capturedLogger } from '../tests/support/captured-logger.ts'
import { exactClock } from '../tests/support/clock.ts'
import { startClickHouseRig } from './clickhouse-rig.ts'
import { median, rounded } from './report.ts'
import { benchBlock, benchLines, hotSite, scattered, type Shape, thousandSites } from './writer-rows.ts'

/** BENCH_EVENTS=100000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 1_000_000)
const lingerSeconds = Number(process.env.BENCH_SECONDS ?? 15)

const shapes: readonly { name: string; shape: Shape; batchRows: number; repeats?: true }[] = [
  { name: 'hot site, batches of 2,000', shape: hotSite, batchRows: 2_000 },
  { name: 'hot site, batches of 20,000', shape: hotSite, batchRows: 20_000 },
  { name: 'hot site, batches of 50,000', shape: hotSite, batchRows: 50_000 },
  { name: '1,000 sites, batches of 20,000', shape: thousandSites, batchRows: 20_000 },
  { name: 'scattered over five years, batches of 20,000', shape: scattered, batchRows: 20_000 },
  { name: 'nothing but repeats, batches of 20,000', shape: hotSite, batchRows: 20_000, repeats: true },
]

/**
 * Measures the cost of batches with different content, each kind in one stream into an empty table, and the cost and
 * benefit of waiting for more events. The CPU time is that of all threads of ClickHouse, merges included.
 */
export async function writerShapes(): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const rig = await startClickHouseRig(join(folder, 'clickhouse'))
  try {
    const results: object[] = []
    for (const [index, { name, shape, batchRows, repeats }] of shapes.entries()) {
      const { clickHouse } = await rig.database(`sluice_shape_${index}`)
      const inserter = openEventInserterAt(clickHouse.address)
      if (repeats) await insertAll(inserter, shape, batchRows)
      await rig.settle()
      const cpuBefore = await rig.cpuSeconds()
      const run = await insertAll(inserter, shape, batchRows)
      results.push({
        shape: name,
        rows_per_second: Math.round(run.rows / run.seconds),
        cpu_seconds_per_million: rounded((((await rig.cpuSeconds()) - cpuBefore) / run.rows) * 1e6),
        batch_ms_median: Math.round(median(run.batchesMs)),
        batch_ms_max: Math.round(Math.max(...run.batchesMs)),
        stored: run.inserted,
      })
      await inserter.close()
      await clickHouse.command('DROP TABLE events SYNC')
    }
    const lingers: object[] = []
    for (const eventsPerSecond of [1_000, 20_000]) {
      for (const lingerMs of [50, 200, 500]) {
        const { clickHouse } = await rig.database(`sluice_linger_${eventsPerSecond}_${lingerMs}`)
        const cpuBefore = await rig.cpuSeconds()
        const inserter = openEventInserterAt(clickHouse.address)
        const run = await trickle(join(folder, `${eventsPerSecond}-${lingerMs}`), inserter, {
          eventsPerSecond,
          lingerMs,
        })
        const cpu = (await rig.cpuSeconds()) - cpuBefore
        lingers.push({ ...run, clickhouse_cores: rounded(cpu / lingerSeconds) })
        await inserter.close()
        await clickHouse.command('DROP TABLE events SYNC')
        await rig.settle()
      }
    }
    return { results, lingers }
  } finally {
    await rig.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function insertAll(inserter: EventInserter, shape: Shape, batchRows: number) {
  const run = { rows: 0, inserted: 0, seconds: 0, batchesMs: [] as number[] }
  for (; run.rows < events; run.rows += batchRows) {
    const payloads = [benchLines(run.rows, batchRows, shape)]
    const began = performance.now()
    const options = { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 60_000 }
    run.inserted += (await inserter.insert({ payloads, hasUndated: false }, options)).inserted
    const ms = performance.now() - began
    run.batchesMs.push(ms)
    run.seconds += ms / 1000
  }
  return run
}

/** Blocks arrive at a steady rate, one partition after the other; the delay of a batch is the age of its oldest row. */
async function trickle(
  dir: string,
  inserter: EventInserter,
  { eventsPerSecond, lingerMs }: { eventsPerSecond: number; lingerMs: number },
): Promise<object> {
  const { logger, lines } = capturedLogger()
  const log = await openEventLog(`file:${dir}`, { logger })
  const metrics = createMetrics()
  const deps = { logs: { live: log, backfill: log }, deadLetters: log, inserter, logger, metrics, clock: exactClock }
  const consumer = eventConsumer(livePolicy({ lingerMs }), deps)
  const abort = new AbortController()
  const running = consumer.run?.(abort.signal)

  const blocksPerSecond = 100
  const rows = eventsPerSecond / blocksPerSecond
  const began = performance.now()
  for (let n = 0; n < lingerSeconds * blocksPerSecond; n++) {
    const due = began + (n * 1000) / blocksPerSecond
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())))
    await log.publish([benchBlock(n % 8, n * rows, rows, hotSite)], { timeoutMs: 5_000 })
  }
  abort.abort()
  await running
  await log.close()

  const batches = lines().filter(({ msg }) => msg === 'batch')
  const ages = batches.map(({ age_ms: age }) => Number(age)).sort((a, b) => a - b)
  return {
    events_per_second: eventsPerSecond,
    linger_ms: lingerMs,
    batches_per_second: rounded(batches.length / lingerSeconds),
    age_ms_p50: median(ages),
    age_ms_p99: ages[Math.floor(ages.length * 0.99)],
  }
}
