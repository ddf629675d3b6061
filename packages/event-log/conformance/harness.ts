import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterEach } from '@jest/globals'
import { silentLogger } from '@sluice/runtime/silent-logger'
import type { EventLog } from '../log.ts'
import { openBackfillLog, openEventLog, type OpenEventLogOptions } from '../open-event-log.ts'
import { block, type Collector } from './collect.ts'

export interface ConformanceSubject {
  /**
   * Creates a new, empty log with four partitions, and its backfill log unless that is a folder. Returns the log's URL.
   */
  createUrl: () => Promise<string>
  /** Options with which the suite opens the log, in this process and in others. */
  options: Omit<OpenEventLogOptions, 'logger'>
}

export const partitions = 4
export const timeoutMs = 10_000

/** Fixtures that the tests of one suite share; `createHarness` registers the clean-up after each test. */
export type Harness = ReturnType<typeof createHarness>

/** To be called within a `describe`. */
export function createHarness({ createUrl, options }: ConformanceSubject) {
  const logs: EventLog[] = []
  const processes: ChildProcess[] = []
  const gates: PromiseWithResolvers<undefined>[] = []

  /**
   * A promise that handlers can wait for. It is resolved after the test at the latest, because otherwise closing the
   * log would hang.
   */
  const createGate = () => {
    const gate = Promise.withResolvers<undefined>()
    gates.push(gate)
    return gate
  }

  const open = async (url: string, logger = silentLogger): Promise<EventLog> => {
    const log = await openEventLog(url, { ...options, logger })
    logs.push(log)
    return log
  }

  /** The options contain no number of partitions, because the backfill log gets the number of its log. */
  const openBackfill = async (url: string, log: EventLog): Promise<EventLog> => {
    const { file: _, ...others } = options
    const backfill = await openBackfillLog(url, log, { ...others, logger: silentLogger })
    logs.push(backfill)
    return backfill
  }

  const openNew = async () => open(await createUrl())

  /** Starts a process that opens the log (killed-process.ts) and collects its reports. */
  const startProcess = (url: string, task: string, group = '') => {
    const program = fileURLToPath(new URL('./killed-process.ts', import.meta.url))
    const child = fork(program, [url, task, group, JSON.stringify(options)], { execArgv: [] })
    processes.push(child)
    const reports: Record<string, string>[] = []
    child.on('message', (report: Record<string, string>) => reports.push(report))
    const reported = (key: string) => reports.flatMap((report) => report[key] ?? [])
    const exited = once(child, 'exit')
    const kill = async () => {
      child.kill('SIGKILL')
      await exited
    }
    return { reported, kill }
  }

  const publishNames = (log: EventLog, partition: number, names: readonly string[]) =>
    log.publish(
      names.map((each) => block(partition, each)),
      { timeoutMs },
    )

  const publishEverywhere = async (log: EventLog, prefix: string) => {
    const names = Array.from({ length: partitions }, (_, partition) => `${prefix}${partition}`)
    await log.publish(
      names.map((each, partition) => block(partition, each)),
      { timeoutMs },
    )
    return names
  }

  afterEach(async () => {
    for (const gate of gates.splice(0)) gate.resolve(undefined)
    for (const child of processes.splice(0)) child.kill('SIGKILL')
    await Promise.all(logs.splice(0).map((log) => log.close()))
  })

  return { createGate, createUrl, open, openBackfill, openNew, startProcess, publishNames, publishEverywhere }
}

/** True when the collectors hold every partition, each of them once. */
export function areAllHeld(...collectors: Collector[]): boolean {
  return (
    collectors
      .flatMap(({ held }) => held())
      .sort((a, b) => a - b)
      .join() === '0,1,2,3'
  )
}
