import type { Logger } from '@sluice/runtime/logger'
import { setTimeout as sleep } from 'node:timers/promises'

/** Where an engine says what happens to it. */
export type EngineLog = Pick<Logger, 'info' | 'warn' | 'error'>

/** One life of an engine's process. */
export interface EngineProcess {
  readonly pid: number
  /** Resolves when it has ended, with how. */
  readonly exited: Promise<string>
  /** Ends it; resolves when it is gone. */
  stop(): Promise<void>
}

/** An engine that is started again in place when its process dies. */
export interface KeptEngine {
  /** Of the present process; another one after a restart. */
  readonly pid: number
  /** Resolves when the engine is down for good, after `stop`. Never rejects. */
  readonly exited: Promise<undefined>
  /** Ends it; resolves when it is gone. Idempotent. */
  stop(): Promise<void>
}

const firstPauseMs = 100
const longestPauseMs = 5_000
/** An engine that lived so long starts with a clean record. */
const healthyAfterMs = 60_000

/**
 * Starts an engine by `start` and, whenever its process ends without being told to, starts it again: at once the first
 * time, then after 100 ms, doubling to 5 s, for as long as it takes: whatever is in its way may go.
 * `start` resolves when the engine answers; its first rejection is thrown.
 */
export async function keepRunning(
  name: string,
  start: () => Promise<EngineProcess>,
  log?: EngineLog,
): Promise<KeptEngine> {
  let current = await start()
  let startedAt = Date.now()
  const stopping = new AbortController()
  const isStopping = (): boolean => stopping.signal.aborted

  async function watch(): Promise<undefined> {
    let failures = 0
    for (;;) {
      const how = await current.exited
      if (isStopping()) return undefined
      log?.error({ engine: name, pid: current.pid, how }, 'engine ended unexpectedly, it is started again')
      if (Date.now() - startedAt > healthyAfterMs) failures = 0

      for (let restarted = false; !restarted;) {
        if (failures > 0) {
          await sleep(Math.min(firstPauseMs * 2 ** (failures - 1), longestPauseMs), undefined, {
            signal: stopping.signal,
          }).catch(() => undefined)
        }
        if (isStopping()) return undefined
        failures += 1
        try {
          current = await start()
          startedAt = Date.now()
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
