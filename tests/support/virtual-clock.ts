import { setImmediate } from 'node:timers/promises'
import type { Clock } from '@sluice/runtime/clock'

/** A clock that stands until a test moves it. */
export interface VirtualClock extends Clock {
  /**
   * Moves the clock by `ms`, and wakes each sleeper whose time comes, in order. The code after a sleep runs before the
   * next sleeper wakes, until it waits for the clock or for an engine.
   */
  advance(ms: number): Promise<void>
  /** How many sleeps have not ended. */
  sleepers(): number
}

interface Sleeper {
  at: number
  wake: () => void
}

/** `startAt` is the first time that the clock shows, in Unix ms. */
export function virtualClock(startAt: number): VirtualClock {
  let now = startAt
  const sleepers = new Set<Sleeper>()

  const earliestUntil = (until: number): Sleeper | undefined =>
    [...sleepers].filter(({ at }) => at <= until).sort((one, other) => one.at - other.at)[0]

  return {
    now: () => now,
    sleepers: () => sleepers.size,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) {
          resolve()
          return
        }
        const wake = (): void => {
          sleepers.delete(sleeper)
          signal?.removeEventListener('abort', wake)
          resolve()
        }
        const sleeper: Sleeper = { at: now + ms, wake }
        sleepers.add(sleeper)
        signal?.addEventListener('abort', wake)
      }),
    advance: async (ms) => {
      const until = now + ms
      for (let next = earliestUntil(until); next; next = earliestUntil(until)) {
        now = Math.max(now, next.at)
        next.wake()
        await setImmediate()
      }
      now = until
      await setImmediate()
    },
  }
}
