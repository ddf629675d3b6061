import { generateLoad, type LoadReport } from '../tests/support/load-generator.ts'
import { batchRequests } from './batch-requests.ts'
import { cpuSecondsOf, pinToCores } from './process-cpu.ts'
import { rounded } from './report.ts'
import { freshLines } from './shapes.ts'
import { sampleLag, type SluiceRig, startSluice } from './sluice-rig.ts'

/** Duration of a step, and the factor by which its rate exceeds the previous one. BENCH_SECONDS=5 for a quick run. */
const seconds = Number(process.env.BENCH_SECONDS ?? 20)
const factor = 1.25
/** BENCH_STEPS=1 for one step of each kind of request. */
const stepsMax = Number(process.env.BENCH_STEPS ?? 20)
const idleSeconds = Math.min(10, seconds)
const drainSecondsMax = 120
/** Limits of a step: the objective of collection, the bar of S4, and the share of requests without a 202. */
const limits = { p99_ms: 500, lag_seconds: 3, refused_share: 0.001 }

interface Kind {
  name: string
  events: number
  /** Maximum number of connections; most are used only when the gateway stalls. */
  connections: number
  /** Events per second of the first step; BENCH_RATE for another one. */
  firstRate: number
  requestFor: (key: string, step: number) => (n: number) => Buffer
}

const kinds: readonly Kind[] = [
  {
    name: 'single',
    events: 1,
    connections: 2_000,
    firstRate: 2_000,
    requestFor: (key, step) => singleRequests(key, step),
  },
  {
    name: 'batches of 500',
    events: 500,
    connections: 128,
    firstRate: 20_000,
    requestFor: (key) => batchRequests({ key, events: 500, sites: 1 }),
  },
]

/** CPU seconds by the name of the process. */
type Cpu = Readonly<Record<string, number>>

interface Step {
  events_per_second: number
  accepted: number
  p50_ms: number
  p99_ms: number
  lag_seconds_max: number
  /** From the begin of the load until all events were stored. */
  seconds: number
  cpu_seconds: Cpu
  /** Which limit the step has exceeded; undefined: none. */
  broken?: string
}

/**
 * The capacity of one core: each process is pinned to a core, and the load rises by a quarter from step to step until
 * the p99 of the answers, the lag of the writer or the share of refusals exceeds its limit. The CPU time of a process,
 * without the time that it uses when idle, is divided by the events of the last step within the limits, or of the first
 * one if there is none; the inverse is the capacity of one core. With fewer cores than processes, the machine limits
 * the rate, but the CPU time for each event is still that of the process.
 */
export async function capacity(): Promise<object> {
  const results: object[] = []
  for (const kind of kinds) results.push(await measure(kind))
  return { limits, results }
}

async function measure(kind: Kind): Promise<object> {
  const rig = await startSluice()
  let release = (): void => undefined
  try {
    // With few cores, the last processes of the list share a core with the first ones.
    const { gateway, clickhouse, writer, kafka, ...others } = rig.pids
    const pids = { gateway, clickhouse, writer, kafka, 'load generator': process.pid, ...others }
    const pinned = pinToCores(pids)
    release = pinned.release
    // Measured before the load: after it, ClickHouse still merges parts.
    const idle = await idleShares(pids)
    await runStep(rig, kind, { rate: kind.firstRate, step: 0, pids })
    const steps: Step[] = []
    let rate = Number(process.env.BENCH_RATE ?? kind.firstRate)
    while (steps.length < stepsMax && steps.at(-1)?.broken === undefined) {
      const step = await runStep(rig, kind, { rate, step: steps.length + 1, pids })
      console.error(`${kind.name}, ${Math.round(rate)}/s: p99 ${step.p99_ms} ms, lag ${step.lag_seconds_max} s`)
      steps.push(step)
      rate *= factor
    }
    const [first] = steps
    const held = steps.filter(({ broken }) => broken === undefined).at(-1)
    if (first === undefined) throw new Error('BENCH_STEPS must be at least 1')
    const costs = costsOf(held ?? first, idle)
    print(`${kind.name}, ${held === undefined ? 'no step held' : `${held.events_per_second} events/s held`}`, costs)
    return {
      kind: kind.name,
      cores: pinned.cores,
      idle_cores: idle,
      held: held?.events_per_second ?? null,
      costs,
      steps,
    }
  } finally {
    release()
    await rig.stop()
  }
}

async function runStep(
  rig: SluiceRig,
  kind: Kind,
  { rate, step, pids }: { rate: number; step: number; pids: Readonly<Record<string, number>> },
): Promise<Step> {
  const before = cpuOf(pids)
  const storedBefore = await rig.writer.figure('sluice_writer_rows_total')
  const beganAt = performance.now()
  const sampler = sampleLag(rig.writer)
  let report: LoadReport
  try {
    report = await generateLoad({
      urls: [rig.gateway.url],
      requestFor: kind.requestFor(rig.key, step),
      connections: kind.connections,
      stages: [{ perSecond: rate / kind.events, seconds }],
      from: step * 10_000_000,
    })
  } finally {
    await sampler.stop()
  }
  const accepted = report.answers.filter(({ status }) => status === 202)
  const acceptedEvents = accepted.length * kind.events
  const isStored = await untilStored(rig, storedBefore + acceptedEvents)
  const after = cpuOf(pids)
  const latencies = accepted.map(({ dueAt, answeredAt }) => answeredAt - dueAt).sort((a, b) => a - b)
  const at = (share: number): number => Math.round(latencies[Math.floor(latencies.length * share)] ?? 0)
  const refused = report.answers.length - accepted.length + report.unsent + report.broken
  const measured = {
    events_per_second: Math.round(acceptedEvents / seconds),
    accepted: acceptedEvents,
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    lag_seconds_max: Math.max(0, ...sampler.lags),
    seconds: rounded((performance.now() - beganAt) / 1000, 1),
    cpu_seconds: Object.fromEntries(
      Object.entries(after).map(([name, cpu]) => [name, rounded(cpu - (before[name] ?? 0))]),
    ),
  }
  const broken = !isStored
    ? `not stored within ${drainSecondsMax} s`
    : refused > limits.refused_share * (refused + accepted.length)
      ? `${refused} requests without a 202`
      : measured.p99_ms > limits.p99_ms
        ? `p99 above ${limits.p99_ms} ms`
        : measured.lag_seconds_max > limits.lag_seconds
          ? `lag above ${limits.lag_seconds} s`
          : undefined
  return { ...measured, ...(broken !== undefined && { broken }) }
}

/** Waits until the writer has read this many rows and all of them are stored; false after a timeout. */
async function untilStored(rig: SluiceRig, rows: number): Promise<boolean> {
  const endsAt = performance.now() + drainSecondsMax * 1000
  while (performance.now() < endsAt) {
    const isRead = (await rig.writer.figure('sluice_writer_rows_total')) >= rows
    if (isRead && (await rig.writer.figure('sluice_writer_freshness_seconds')) === 0) return true
    await pause(250)
  }
  return false
}

function cpuOf(pids: Readonly<Record<string, number>>): Cpu {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, cpuSecondsOf(pid)]))
}

/** CPU usage of each process without load, in cores. */
async function idleShares(pids: Readonly<Record<string, number>>): Promise<Cpu> {
  const before = cpuOf(pids)
  await pause(idleSeconds * 1000)
  return Object.fromEntries(
    Object.entries(cpuOf(pids)).map(([name, cpu]) => [name, rounded((cpu - (before[name] ?? 0)) / idleSeconds, 3)]),
  )
}

interface Cost {
  process: string
  cpu_us_per_event: number
  events_per_core_second: number | null
  cores_used: number
}

/** Costs of the processes; none if no event was accepted. */
function costsOf(step: Step, idle: Cpu): Cost[] {
  if (step.accepted === 0) return []
  return Object.entries(step.cpu_seconds).map(([name, cpu]) => {
    const micros = (Math.max(0, cpu - (idle[name] ?? 0) * step.seconds) / step.accepted) * 1e6
    return {
      process: name,
      cpu_us_per_event: rounded(micros),
      // Below the resolution of the CPU time.
      events_per_core_second: micros < 0.1 ? null : Math.round(1e6 / micros),
      cores_used: rounded(cpu / step.seconds),
    }
  })
}

/** Prints to standard error: standard output contains only the JSON of the benchmark. */
function print(heading: string, costs: readonly Cost[]): void {
  const rows = costs.map(({ process: name, cpu_us_per_event: micros, events_per_core_second: perCore }) => {
    return `| ${name.padEnd(14)} | ${String(micros).padStart(12)} | ${String(perCore ?? '–').padStart(19)} |`
  })
  const title = `\n${heading}\n| process        | CPU µs/event | events/s and a core |\n| -------------- | ------------ | ------------------- |`
  console.error(`${title}\n${rows.join('\n')}\n`)
}

/** Requests with one event each, of one site, in the shapes of producers; ids are new in each step. */
function singleRequests(key: string, step: number): (n: number) => Buffer {
  const run = '%run%'
  const lines = freshLines(run).map((line) => line.replace(/"site_id":"[^"]*"/, '"site_id":"shop"'))
  return (n) => {
    const body = (lines[n % lines.length] ?? '').replaceAll(run, `${step}-${n.toString(36)}`)
    const head = [
      'POST /collect HTTP/1.1',
      'Host: sluice',
      `Authorization: Bearer ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
    ]
    return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
