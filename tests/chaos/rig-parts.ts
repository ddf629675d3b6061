import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '@sluice/engines/processes'
import { openClickHouse } from '@sluice/event-store/client'
import { type ServiceName, type ServiceProcess, spawnProgram, startService } from '../support/service-process.ts'

/** A service that can be killed and started again on the same port. */
export interface RestartableService {
  readonly url: string
  /** The id of its process since its last start. */
  pid(): number
  /** Sends SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>
  /** Starts the service again on the same port; resolves when it is ready. */
  start(): Promise<void>
  /** Sends SIGTERM; resolves when the process has ended. */
  stop(): Promise<void>
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

/** Works like Promise.all, but rejects only once all have settled: a start that still runs could not be undone. */
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

/** Unlike SYSTEM STOP MERGES, this setting survives a restart of ClickHouse; the audit checks that nothing was merged. */
export async function keepEveryPart(clickHouseUrl: string): Promise<void> {
  const clickHouse = openClickHouse(clickHouseUrl)
  await clickHouse.command(`
    ALTER TABLE events MODIFY SETTING
      max_bytes_to_merge_at_min_space_in_pool = 1, max_bytes_to_merge_at_max_space_in_pool = 1,
      parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000, max_parts_in_total = 1000000`)
  await clickHouse.close()
}

export async function startRestartable(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
): Promise<RestartableService> {
  const port = await findFreePort()
  let service: ServiceProcess = await startService(name, environment, { port })
  // This process may end early, for example by an error. Engines notice that by themselves, services do not.
  const endWithUs = (): void => {
    service.signal('SIGKILL')
  }
  process.on('exit', endWithUs)
  const kill = async (): Promise<void> => {
    service.signal('SIGKILL')
    await service.exited
  }
  return {
    url: service.url,
    pid: () => service.pid,
    kill,
    start: async () => {
      service = await startService(name, environment, { port })
    },
    end: async () => {
      process.off('exit', endWithUs)
      await kill()
    },
    stop: async () => {
      await service.stop()
    },
    freeze: () => {
      service.signal('SIGSTOP')
    },
    wake: () => {
      service.signal('SIGCONT')
    },
    output: () => service.output(),
  }
}
