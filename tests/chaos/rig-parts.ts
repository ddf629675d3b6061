import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isAlive } from '@sluice/engines/processes'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../support/free-port.ts'
import { type ServiceName, type ServiceProcess, spawnProgram, startService } from '../support/service-process.ts'

/** Maximum time until a killed process works again. */
export const backTimeoutMs = 120_000

export interface StartOptions {
  /** The root of another clone, whose service is started. */
  root?: URL
}

/** A service that can be killed and started again on the same port. */
export interface RestartableService {
  readonly url: string
  /** The id of its process since its last start. */
  pid(): number
  /** Sends SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>
  /** Starts the service again on the same port; resolves when it is ready. */
  start(options?: StartOptions): Promise<void>
  /** Sends SIGTERM; resolves with how the process has ended: its exit code, or the signal. */
  stop(): Promise<number | NodeJS.Signals>
  /** Sends SIGKILL; the service is not started again. */
  end(): Promise<void>
  freeze(): void
  wake(): void
  /** The output of the service since its last start. */
  output(): string
}

/** Registers a function that ends a part of a rig. */
export type Keep = <T>(starting: Promise<T>, end: (thing: T) => Promise<void>) => Promise<T>

/** Starts a rig by its parts: they are ended in reverse order, also when a later start fails. */
export async function startWith<T>(startParts: (keep: Keep) => Promise<T>): Promise<T & { stop(): Promise<void> }> {
  const ends: (() => Promise<void>)[] = []
  const keep: Keep = async (starting, end) => {
    const thing = await starting
    ends.push(() => end(thing))
    return thing
  }
  const stop = async (): Promise<void> => {
    for (let end = ends.pop(); end !== undefined; end = ends.pop()) await end()
  }
  try {
    return { ...(await startParts(keep)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/**
 * Works like Promise.all, but rejects only when all promises have settled, because a start that is still running could
 * not be undone.
 */
export async function together<T extends readonly Promise<unknown>[]>(
  starting: readonly [...T],
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(starting)
  return Promise.all(starting)
}

export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `sluice-chaos-${process.pid}-`))
  await chmod(folder, 0o711) // As root, Postgres runs as another user, which must pass through this folder.
  return folder
}

export async function migrate(environment: Readonly<Record<string, string>>): Promise<void> {
  const service = await spawnProgram('admin/migrate/main', environment)
  const code = await service.exited
  if (code !== 0) throw new Error(`migrate ended with ${code}: ${service.output()}`)
}

/**
 * Unlike SYSTEM STOP MERGES, this setting survives a restart of ClickHouse; the audit checks that nothing was merged.
 */
export async function keepEveryPart(clickHouseUrl: string): Promise<void> {
  const clickHouse = openClickHouse(clickHouseUrl)
  await clickHouse.command(`
    ALTER TABLE events MODIFY SETTING
      max_bytes_to_merge_at_min_space_in_pool = 1, max_bytes_to_merge_at_max_space_in_pool = 1,
      parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000, max_parts_in_total = 1000000`)
  await clickHouse.close()
}

/** A column of `keepEveryRow`, which makes each row unique. */
export const rowIdColumn = 'row_id'

/**
 * Adds an id of each row to the sorting key of the table of events, so that merges keep rows that are stored twice.
 * Call it while the table is empty: ClickHouse can't change the key of another one like this.
 */
export async function keepEveryRow(clickHouseUrl: string): Promise<void> {
  const clickHouse = openClickHouse(clickHouseUrl)
  const { rows } = await clickHouse.query<{ statement: string }>('SHOW CREATE TABLE events')
  const statement = (rows[0]?.statement ?? '')
    .replace('`event_key`', `\`${rowIdColumn}\` UUID MATERIALIZED generateUUIDv4(), $&`)
    .replace(/(ORDER BY \([^)]*)\)\nSETTINGS/, `$1, ${rowIdColumn})\nSETTINGS`)
  await clickHouse.command('DROP TABLE events SYNC')
  await clickHouse.command(statement)
  await clickHouse.close()
}

export async function startRestartable(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
  options: StartOptions = {},
): Promise<RestartableService> {
  const port = await findFreePort()
  let service: ServiceProcess = await startService(name, environment, { port, ...options })
  // This process may end early, for example by an error. Engines notice that by themselves, services do not.
  const endWithUs = (): void => service.signal('SIGKILL')
  process.on('exit', endWithUs)
  const kill = async (): Promise<void> => {
    service.signal('SIGKILL')
    await service.exited
  }
  return {
    url: service.url,
    pid: () => service.pid,
    kill,
    start: async (options = {}) => {
      service = await startService(name, environment, { port, ...options })
    },
    end: async () => {
      process.off('exit', endWithUs)
      await kill()
    },
    stop: () => service.stop(),
    freeze: () => service.signal('SIGSTOP'),
    wake: () => service.signal('SIGCONT'),
    output: () => service.output(),
  }
}

/** The texts of the errors that processes have logged since their last start, with the number of times of each. */
export function countErrors(processes: readonly RestartableService[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const line of processes.flatMap((process) => process.output().split('\n'))) {
    if (!line.includes('"level":"error"')) continue
    const [, text = line.slice(0, 300)] = /"error":"([^"]*)"/.exec(line) ?? []
    counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  return counts
}

/**
 * How many requests gateways have refused because the log did not acknowledge their events in time, or because they
 * waited too long for the processor. On a busy machine, both also happen when another engine is unavailable.
 */
export function countBusyRefusals(gateways: readonly RestartableService[]): number {
  const isBusy = (text: string): boolean => /^(not acknowledged|the log does not|Kafka|requests wait)/.test(text)
  return [...countErrors(gateways)].reduce((sum, [text, count]) => sum + (isBusy(text) ? count : 0), 0)
}

/** Kills an embedded engine, which its supervisor restarts; resolves when the engine is ready again. */
export async function killEngine(engine: { pid: number }, answers: () => Promise<boolean>): Promise<void> {
  const { pid } = engine
  process.kill(pid, 'SIGKILL')
  const isBack = async (): Promise<boolean> => engine.pid !== pid && isAlive(engine.pid) && (await answers())
  await waitUntil(isBack, 'the killed engine is back', backTimeoutMs)
}

export async function clickHouseAnswers(url: string): Promise<boolean> {
  const client = openClickHouse(url)
  try {
    await client.check()
    return true
  } catch {
    return false
  } finally {
    await client.close()
  }
}
