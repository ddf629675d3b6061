import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runWithWatchdog } from '@sluice/engines/run-with-watchdog'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from './free-port.ts'

/** Debian installs HAProxy in /usr/sbin, which is in the PATH of root only. */
const searchPath = `${process.env.PATH ?? ''}:/usr/sbin`
const configFile = fileURLToPath(new URL('../../deploy/haproxy/haproxy.cfg', import.meta.url))

/** HAProxy with deploy/haproxy/haproxy.cfg. */
export interface Haproxy {
  /** The gateways' address for clients, `http://127.0.0.1:<port>`. */
  collectUrl: string
  /** The query services' address for clients. */
  queryUrl: string
  /** Counters of all servers together since its start. */
  counts(): Promise<HaproxyCounts>
  stop(): Promise<void>
}

export interface HaproxyCounts {
  /** Refused connections to a server that were tried again. */
  retried: number
  /** Requests that were sent to another server than the one chosen first. */
  redispatched: number
  /** Connections to a server that failed for good. */
  failed_connections: number
  /** Responses that were incomplete or invalid. */
  failed_responses: number
}

/** A message on how to install HAProxy if it is missing; otherwise undefined. */
export function haproxyMissing(): string | undefined {
  try {
    execFileSync('haproxy', ['-v'], { stdio: 'ignore', env: { ...process.env, PATH: searchPath } })
    return undefined
  } catch {
    return 'HAProxy is missing: apt-get install haproxy (macOS: brew install haproxy)'
  }
}

/**
 * Starts HAProxy in front of two gateways and two query services, each `http://<host>:<port>`; it ends with this
 * process.
 */
export async function startHaproxy(servers: {
  gateways: readonly [string, string]
  queries: readonly [string, string]
}): Promise<Haproxy> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-haproxy-'))
  const address = async (): Promise<string> => `127.0.0.1:${await findFreePort()}`
  const [collect, questions, metrics] = [await address(), await address(), await address()]
  const [gateway1, gateway2, query1, query2] = [...servers.gateways, ...servers.queries].map((url) => new URL(url).host)
  const logFile = join(folder, 'haproxy.log')
  const program = await runWithWatchdog(
    {
      command: 'haproxy',
      args: ['-db', '-f', configFile],
      cwd: folder,
      env: {
        PATH: searchPath,
        SLUICE_COLLECT_BIND: collect,
        SLUICE_QUESTIONS_BIND: questions,
        SLUICE_BALANCER_METRICS_BIND: metrics,
        SLUICE_GATEWAY_1: gateway1 ?? '',
        SLUICE_GATEWAY_2: gateway2 ?? '',
        SLUICE_QUERY_1: query1 ?? '',
        SLUICE_QUERY_2: query2 ?? '',
      },
      signalWhenOrphaned: 'SIGKILL',
    },
    logFile,
  )
  const readCounts = (): Promise<HaproxyCounts> => countsOf(`http://${metrics}/;csv;norefresh`)
  const stop = async (): Promise<void> => {
    program.signal('SIGKILL')
    await program.exited
    await rm(folder, { recursive: true })
  }
  const isUp = async (): Promise<boolean> => {
    if (program.hasExited()) throw new Error(`HAProxy ended:\n${readFileSync(logFile, 'utf8')}`)
    return readCounts().then(
      () => true,
      () => false,
    )
  }
  try {
    await waitUntil(isUp, 'HAProxy answers')
  } catch (error) {
    await stop()
    throw error
  }
  return { collectUrl: `http://${collect}`, queryUrl: `http://${questions}`, counts: readCounts, stop }
}

/** Reads the statistics of HAProxy, which have a line for each server. */
async function countsOf(url: string): Promise<HaproxyCounts> {
  const response = await fetch(url)
  const text = await response.text()
  if (!response.ok) throw new Error(`HAProxy's statistics answer ${response.status}`)
  const [head = '', ...lines] = text.replace(/^# /, '').trim().split('\n')
  const columns = head.split(',')
  const rows = lines.map((line) => line.split(','))
  const isServer = (row: readonly string[]): boolean => !['FRONTEND', 'BACKEND'].includes(row[1] ?? '')
  const sum = (column: string): number =>
    rows.filter(isServer).reduce((total, row) => total + Number(row[columns.indexOf(column)]), 0)
  return {
    retried: sum('wretr'),
    redispatched: sum('wredis'),
    failed_connections: sum('econ'),
    failed_responses: sum('eresp'),
  }
}
