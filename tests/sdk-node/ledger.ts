import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import { drawBelow, seededRandom } from '../chaos/random.ts'
import type { Outcome, Say } from '../chaos/scenario.ts'
import { type CollectProxy, startCollectProxy, type Treatment } from '../support/collect-proxy.ts'
import { mutate } from '../support/mutate.ts'
import { auditLedger, type Noted } from './audit.ts'
import type { ChildLine, ChildSettings } from './child.ts'
import type { Line, SdkMutation } from './mutations.ts'

/** A running Sluice. Merges of its table of events must be off: they could hide what was stored twice. */
export interface LedgerTarget {
  gatewayUrl: string
  /** A key that may send more events in a minute than the ledger does. */
  key: string
  clickHouse: Pick<ClickHouse, 'query'>
  /** Resolves once everything that was accepted before is stored, or can't be any more. */
  drain(): Promise<void>
}

export interface LedgerOptions {
  seed: number
  site: string
  /** Processes that are killed, one after the other in each of two places that share a spool. */
  kills: number
  /**
   * All requests before the last process: not one reaches the gateway, or not one answer comes back. Random faults when
   * left out.
   */
  line?: Line
  /** A bug that is put into the SDK. */
  mutation?: SdkMutation
  say: Say
}

const places = 2
const dayMs = 86_400_000
const lastProcessMsMax = 300_000

/**
 * Runs processes that track events with one spool, kills each at a random moment, and lets a last one send what is
 * left. In between, a proxy does to requests what networks and servers do. Then the rows are compared with what the
 * processes have reported: each event once track had returned.
 */
export async function runLedger(target: LedgerTarget, options: LedgerOptions): Promise<Outcome> {
  const { seed, site, kills, line, mutation, say } = options
  const folder = await mkdtemp(join(tmpdir(), 'sluice-ledger-'))
  const proxy = await startCollectProxy(target.gatewayUrl)
  const noted: Noted = { receipts: new Map(), started: new Set(), clocks: new Map(), errors: new Map() }
  const children = new Set<ChildProcess>()
  try {
    const program = await bundleChild(folder, mutation)
    const spool = join(folder, 'spool')
    await mkdir(spool)
    const base = { url: proxy.url, key: target.key, site, spool }
    const start = (settings: ChildSettings) => startChild(program, settings, { noted, children })
    proxy.treat = faultsOf(seed, line)

    const onePlace = async (place: number): Promise<void> => {
      const random = seededRandom(seed, place + 1)
      for (let n = place; n < kills; n += places) {
        const { child, ended } = start({ ...base, ...drawSettings(random, line), process: n, isLast: false })
        await waitUntil(() => noted.started.has(n), `process ${n} tracks`)
        // A bug shows once a request has failed, or with lost answers once it is repeated.
        if (line) await waitUntil(() => timesSent(proxy, n) >= (line === 'away' ? 1 : 2), `process ${n} sends`)
        else await sleep(200 + drawBelow(random, 1_200))
        child.kill('SIGKILL')
        await ended
        say(`process ${n} was killed; ${noted.receipts.size} events are reported`)
      }
    }
    await Promise.all(Array.from({ length: places }, (_, place) => onePlace(place)))

    proxy.treat = () => ({ kind: 'forward' })
    const { child, ended } = start({ ...base, clockAheadMs: 0, process: kills, isLast: true })
    const limit = setTimeout(() => child.kill('SIGKILL'), lastProcessMsMax)
    const code = await ended.finally(() => clearTimeout(limit))
    await proxy.settle()
    await target.drain()
    const { problems, ...result } = await auditLedger(target.clickHouse, site, noted)
    if (code !== 0) problems.push(`the last process ended with ${code ?? 'a signal'}`)
    if (noted.errors.has('left')) problems.push('files are left in the spool')
    const requests = proxy.requests.length
    return {
      ...result,
      problems,
      figures: { kills, requests, ...result.figures, errors: Object.fromEntries(noted.errors) },
    }
  } finally {
    for (const child of children) child.kill('SIGKILL')
    await proxy.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

/** The largest number of requests that contained the same event of a process. */
function timesSent({ requests }: CollectProxy, ofProcess: number): number {
  const times = new Map<string, number>([['', 0]])
  for (const { events } of requests) {
    const { key = '' } = (events[0]?.properties ?? {}) as { key?: string }
    if (key.startsWith(`${ofProcess}-`)) times.set(key, (times.get(key) ?? 0) + 1)
  }
  return Math.max(...times.values())
}

/**
 * Every fourth process has a clock that Sluice refuses, every eighth one that is slow, every fifth a spool that gets
 * full.
 */
function drawSettings(random: () => number, line: Line | undefined) {
  const clock = drawBelow(random, 8)
  const isFull = drawBelow(random, 5) === 0
  if (line) return { clockAheadMs: 0 }
  return {
    clockAheadMs: clock < 2 ? 3 * dayMs : clock === 2 ? -3_600_000 : 0,
    ...(isFull && { spoolBytesMax: 200_000 }),
  }
}

function faultsOf(seed: number, line: Line | undefined): CollectProxy['treat'] {
  if (line) return () => ({ kind: line === 'away' ? 'cut-before' : 'cut-after' })
  const random = seededRandom(seed)
  return ({ events }): Treatment => {
    const retry = { 'Retry-After': String(drawBelow(random, 2)) }
    const draw = drawBelow(random, 20)
    if (draw < 3) return { kind: 'cut-before' }
    if (draw < 6) return { kind: 'cut-after' }
    if (draw < 9) return { kind: 'delay', ms: drawBelow(random, 400) }
    if (draw < 11) return { kind: 'repeat', afterMs: drawBelow(random, 2_000) }
    if (draw < 12 && events.length > 1) return { kind: 'answer', status: 413 }
    if (draw < 13) return { kind: 'answer', status: 429, headers: retry }
    if (draw < 14) return { kind: 'answer', status: 503, headers: retry }
    return { kind: 'forward' }
  }
}

/** The program of a process as one file, with the SDK's sources in it. */
async function bundleChild(folder: string, mutation: SdkMutation | undefined): Promise<string> {
  const outfile = join(folder, 'child.mjs')
  await build({
    entryPoints: [fileURLToPath(new URL('child.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    logLevel: 'warning',
    outfile,
    plugins: [mutate(mutation?.edits ?? [])],
  })
  return outfile
}

function startChild(
  program: string,
  settings: ChildSettings,
  { noted, children }: { noted: Noted; children: Set<ChildProcess> },
): { child: ChildProcess; ended: Promise<number | null> } {
  const child = spawn(process.execPath, [program, JSON.stringify(settings)], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.add(child)
  noted.clocks.set(settings.process, settings.clockAheadMs)
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (text) => {
    // A line that the kill has cut off reports nothing.
    if (!text.endsWith('}')) return
    const line = JSON.parse(text) as ChildLine
    if ('started' in line) noted.started.add(line.started)
    else if ('error' in line) noted.errors.set(line.error, (noted.errors.get(line.error) ?? 0) + 1)
    else noted.receipts.set(line.key, { event_id: line.event_id, timestamp: line.timestamp })
  })
  const read = new Promise((resolve) => lines.once('close', resolve))
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  return { child, ended: Promise.all([exited, read]).then(([code]) => code) }
}
