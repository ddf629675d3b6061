import { availableParallelism, loadavg } from 'node:os'
import { type Audit, audit } from './audit.ts'
import { waitForDrain } from './drain.ts'
import type { Probe } from './freshness.ts'
import type { RestartableService } from './rig-parts.ts'
import { startLoad } from './rolling-load.ts'
import { type RolledService, rolledServices, type RollingRig } from './rolling-rig.ts'
import type { Outcome, Say } from './scenario.ts'
import type { Ledger } from './sender.ts'

export interface RollingOptions {
  seed: number
  /** How often each process is restarted. */
  rolls: number
  /**
   * The clone of the previous release, from which the services were started; undefined: all services are of this build.
   */
  previousRoot: URL | undefined
  say: Say
}

/** The restart of one process; `from` and `to` are Unix ms. */
interface Roll {
  service: RolledService
  from: number
  to: number
  stopMs: number
  readyMs: number
}

interface Failure {
  /** Unix ms. */
  at: number
  what: string
}

/** Maximum time until events are stored while a writer is restarted, as in docs/operations.md. */
const freshnessMsMax = 30_000
/** Maximum time from the SIGTERM to the end of a process, as in docs/operations.md. */
const stopMsMax: Readonly<Record<RolledService, number>> = {
  gateway: 10_000,
  query: 40_000,
  writer: 10_000,
  worker: 10_000,
}
const drainTimeoutMs = 180_000
const shownFailures = 20

/**
 * Restarts every process, one after the other, while events and queries are sent through HAProxy, with keep-alive and
 * on new connections, and exports run. No request may fail, each event must be stored once, and each process must end
 * with 0 and in time. With a previous release, odd rounds replace its processes with those of this build, and even
 * rounds go back.
 */
export async function rolling(
  rig: RollingRig,
  { seed, rolls: rounds, previousRoot, say }: RollingOptions,
): Promise<Outcome> {
  const failures: Failure[] = []
  const load = await startLoad(rig, {
    seed,
    onFailure: (what) => {
      failures.push({ at: Date.now(), what })
      say(what)
    },
  })
  const problems: string[] = []
  const errorLines: string[] = []
  const rolls: Roll[] = []
  let duringExports = 0
  const rollOnce = async (service: RolledService, process: RestartableService, root: URL | undefined) => {
    if (service === 'worker' && load.isExporting()) duringExports++
    const from = Date.now()
    const code = await process.stop()
    const stoppedAt = Date.now()
    errorLines.push(...errorLinesOf(service, process))
    if (code !== 0) problems.push(`a ${service} ended with ${code}: ${process.output().slice(-500)}`)
    await process.start(root && { root })
    const to = Date.now()
    rolls.push({ service, from, to, stopMs: stoppedAt - from, readyMs: to - stoppedAt })
    return `ended in ${stoppedAt - from} ms, ready in ${to - stoppedAt} ms`
  }
  const rollAll = async (): Promise<void> => {
    for (let round = 0; round < rounds; round++) {
      const root = round % 2 === 0 ? undefined : previousRoot
      for (const service of rolledServices) {
        for (const [index, process] of rig.services[service].entries()) {
          load.throwIfFailed()
          say(`round ${round + 1}: ${service} ${index + 1} ${await rollOnce(service, process, root)}`)
        }
      }
    }
  }
  await rollAll().catch(async (error: unknown) => {
    // The load must end before the rig is stopped.
    await load.stop().catch(() => undefined)
    throw error
  })
  const { ledgers, answered, completed, probes } = await load.stop()
  await waitForDrain(rig, drainTimeoutMs)
  say('the load is over and the log is drained')
  failures.push(...ledgers.flatMap(failuresOf))

  const details: unknown[] = failures.slice(0, shownFailures)
  for (const service of rolledServices)
    for (const process of rig.services[service]) errorLines.push(...errorLinesOf(service, process))
  if (failures.length > 0) details.push(...errorLines)
  const stored: Omit<Audit, 'differences'>[] = []
  for (const ledger of ledgers) {
    const { differences, ...counts } = await audit([rig.clickHouse.url], ledger)
    stored.push(counts)
    details.push(...differences)
  }
  const total = (name: keyof Omit<Audit, 'differences'>): number =>
    stored.reduce((sum, counts) => sum + counts[name], 0)
  for (const what of ['lost', 'twice', 'altered', 'foreign'] as const)
    if (total(what) > 0) problems.push(`${total(what)} events ${what}`)
  if (failures.length > 0) problems.push(`${failures.length} requests failed`)
  const delayMax = longestDelay(probes)
  const delays = probes.map(({ acceptedAt, storedAt }) => storedAt - acceptedAt).sort((a, b) => a - b)
  const { beganAt } = ledgers[0] ?? { beganAt: 0 }
  const slow = probes.filter(({ acceptedAt, storedAt }) => storedAt - acceptedAt > freshnessMsMax / 2)
  details.push(...slow.slice(0, shownFailures).map((probe) => describeProbe(probe, beganAt)))
  if (delayMax > freshnessMsMax)
    problems.push(`events were stored after ${delayMax} ms; the maximum is ${freshnessMsMax}`)
  if (completed === 0) problems.push('no export was completed')

  problems.push(...slowStops(rolls))
  const services = Object.fromEntries(
    rolledServices.map((service) => [service, summarise(service, { rolls, probes, failures })]),
  )
  for (const line of tableOf(services)) say(line)
  return {
    figures: {
      releases: previousRoot ? 'previous and this' : 'this',
      services,
      events: total('events'),
      rows: total('rows'),
      lost: total('lost'),
      twice: total('twice'),
      altered: total('altered'),
      requests: ledgers.reduce((sum, { figures }) => sum + figures.requests + figures.resent, 0),
      questions: answered,
      exports: completed,
      worker_stops_during_exports: duringExports,
      failed: failures.length,
      freshness_ms_p50: delays[Math.floor(delays.length / 2)] ?? 0,
      freshness_ms_max: delayMax,
      balancer: await rig.balancer.counts(),
      // On a busy machine services answer late or with 503, even without restarts.
      load_average: loadavg()[1],
      cores: availableParallelism(),
    },
    problems,
    details,
  }
}

/** The last error lines in the log of a process, which may explain failed requests. */
function errorLinesOf(service: RolledService, process: RestartableService): string[] {
  if (service !== 'gateway' && service !== 'query') return []
  const lines = process.output().split('\n')
  return lines.filter((line) => line.includes('"level":"error"')).slice(-shownFailures)
}

/** All attempts of a sender that were not answered 202, including those that a later attempt has repeated. */
function failuresOf({ requests }: Ledger): Failure[] {
  return requests.flatMap(({ attempts }) =>
    attempts
      .filter(({ outcome }) => outcome !== 202)
      .map(({ at, ms, outcome }) => ({ at: at + ms, what: `events got ${outcome} after ${ms} ms` })),
  )
}

function describeProbe({ acceptedAt, storedAt }: Probe, beganAt: number): string {
  return `events of ${(acceptedAt - beganAt) / 1000} s were stored after ${storedAt - acceptedAt} ms`
}

function longestDelay(probes: readonly Probe[]): number {
  return Math.max(0, ...probes.map(({ acceptedAt, storedAt }) => storedAt - acceptedAt))
}

/** A problem for each service with a process that took too long to end. */
export function slowStops(rolls: readonly Pick<Roll, 'service' | 'stopMs'>[]): string[] {
  return rolledServices.flatMap((service) => {
    const longest = longestStop(service, rolls)
    const max = stopMsMax[service]
    return longest > max ? [`a ${service} ended after ${longest} ms; the maximum is ${max}`] : []
  })
}

function longestStop(service: RolledService, rolls: readonly Pick<Roll, 'service' | 'stopMs'>[]): number {
  return Math.max(0, ...rolls.filter((roll) => roll.service === service).map(({ stopMs }) => stopMs))
}

interface Summary {
  rolls: number
  stop_ms_max: number
  ready_ms_max: number
  /**
   * The longest time until an event was stored, among the events that were sent or waiting while one of these processes
   * was restarted.
   */
  freshness_ms_max: number
  /** Number of requests that failed while one of these processes was restarted. */
  failed: number
}

function summarise(
  service: RolledService,
  { rolls, probes, failures }: { rolls: readonly Roll[]; probes: readonly Probe[]; failures: readonly Failure[] },
): Summary {
  const own = rolls.filter((roll) => roll.service === service)
  const overlaps = (from: number, to: number): boolean => own.some((roll) => from <= roll.to && to >= roll.from)
  return {
    rolls: own.length,
    stop_ms_max: longestStop(service, own),
    ready_ms_max: Math.max(0, ...own.map(({ readyMs }) => readyMs)),
    freshness_ms_max: longestDelay(probes.filter(({ acceptedAt, storedAt }) => overlaps(acceptedAt, storedAt))),
    failed: failures.filter(({ at }) => overlaps(at, at)).length,
  }
}

function tableOf(services: Readonly<Record<string, Summary>>): string[] {
  const head = ['service', 'rolls', 'stop ms', 'ready ms', 'fresh ms', 'failed']
  const rows = Object.entries(services).map(([name, summary]) => [name, ...Object.values<number>({ ...summary })])
  return [head, ...rows].map((row) => row.map((cell) => String(cell).padStart(9)).join(' '))
}
