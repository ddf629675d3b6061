import type { Logger } from '@sluice/runtime/logger'
import { sleep } from '@sluice/runtime/sleep'

/** One process of an engine. */
export interface EngineProcess {
  readonly pid: number
  /** Resolves when the process has ended, with `code 1` or `signal SIGKILL`. */
  readonly exited: Promise<string>
  /** Ends the process; resolves when it has ended. */
  stop(): Promise<void>
}

/** An engine whose process is restarted whenever it ends by itself. */
export interface RestartedEngine {
  /** Process id of the present process; changes with a restart. */
  readonly pid: number
  /** Resolves when the engine has stopped after `stop`. Never rejects. */
  readonly exited: Promise<undefined>
  /** Stops the engine; resolves when its process has ended. Idempotent. */
  stop(): Promise<void>
}

const firstDelayMs = 100
const longestDelayMs = 5_000
/** A process that ran for this long resets the delays. */
const healthyAfterMs = 60_000

/**
 * Starts an engine by `start` and restarts it whenever its process ends without `stop`: at once the first time, then
 * after 100 ms, doubling to 5 s, without a limit, because the obstacle may disappear. `start` resolves when the engine
 * accepts queries; the rejection of its first call is thrown.
 */
export async function restartOnExit(
  name: string,
  start: () => Promise<EngineProcess>,
  log?: Pick<Logger, 'warn' | 'error'>,
): Promise<RestartedEngine> {
  let current = await start()
  let startedAt = performance.now()
  const stopping = new AbortController()
  const isStopping = (): boolean => stopping.signal.aborted

  async function watch(): Promise<undefined> {
    let failures = 0
    for (;;) {
      const how = await current.exited
      if (isStopping()) return undefined
      log?.error({ engine: name, pid: current.pid, how }, 'engine ended unexpectedly, it is started again')
      if (performance.now() - startedAt > healthyAfterMs) failures = 0

      for (let restarted = false; !restarted;) {
        if (failures > 0) {
          await sleep(Math.min(firstDelayMs * 2 ** (failures - 1), longestDelayMs), stopping.signal)
        }
        if (isStopping()) return undefined
        failures += 1
        try {
          current = await start()
          startedAt = performance.now()
          restarted = true
          log?.warn({ engine: name, pid: current.pid }, 'engine is back')
        } catch (error) {
          log?.error({ engine: name, err: error }, 'engine did not start')
        }
      }
      if (isStopping()) await current.stop()
    }
  }

  const exited = watch()
  return {
    get pid() {
      return current.pid
    },
    exited,
    stop: async () => {
      stopping.abort()
      await current.stop()
      await exited
    },
  }
}
