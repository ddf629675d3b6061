import type { Clock } from '@sluice/runtime/clock'
import { internalMessage, isRetryable } from '@sluice/runtime/errors'
import { settledOrStopped } from '@sluice/runtime/settled-or-aborted'
import type { Component } from '@sluice/runtime/supervisor'

export interface TakeLoopOptions {
  /** The component's name. */
  name: string
  clock: Clock
  /** Aborts when the process begins to stop. The component itself is stopped later, after the last request. */
  stopping?: AbortSignal
  /**
   * Takes due jobs up to the number of free slots, starts the work on them, and passes each piece of work to `follow`,
   * as a promise that never rejects. Jobs that arrive after `signal` has aborted are given back.
   */
  take: (signal: AbortSignal, follow: (work: Promise<void>) => void) => Promise<void>
  /** Aborts the running work, which gives back its unfinished jobs. */
  abort: () => void
  /** Logs that nothing can be taken now, for a temporary reason. */
  warn: (fields: { error: string }) => void
}

const takeMs = 1_000
/** Longest pause between takes while Postgres is unavailable, in ms. */
const longestBackoffMs = 10_000
/** Time that running work gets to finish after a stop, in ms. */
const graceMs = 5_000
/** Time that aborted work gets to end and to give back its jobs. It is short, because Postgres may hang. */
const releaseMs = 1_500

/**
 * Takes each second, and as soon as a piece of work has ended. After a stop, it takes nothing more, waits 5 s for the
 * running work, aborts it and lets it give back its jobs, within 7 s in total. Errors of `take` that are not retryable
 * end the component.
 */
export function takeLoop({ name, clock, stopping, take, abort, warn }: TakeLoopOptions): Component {
  const underWay = new Set<Promise<void>>()
  let someEnded = Promise.withResolvers<undefined>()
  let taking: Promise<void> = Promise.resolve()

  function follow(work: Promise<void>): void {
    const ended = work.then(() => {
      underWay.delete(ended)
      someEnded.resolve(undefined)
    })
    underWay.add(ended)
  }

  async function takeUntilStopped(signal: AbortSignal): Promise<void> {
    let backoffMs = 0
    while (!signal.aborted) {
      const hasEnded = someEnded.promise
      try {
        taking = take(signal, follow)
        await settledOrStopped(taking, signal)
        backoffMs = 0
      } catch (error) {
        if (!isRetryable(error)) throw error
        if (backoffMs === 0) warn({ error: internalMessage(error) })
        backoffMs = Math.min(Math.max(takeMs, 2 * backoffMs), longestBackoffMs)
      }
      await pause(backoffMs || takeMs, signal, backoffMs > 0 ? undefined : hasEnded)
      someEnded = Promise.withResolvers()
    }
  }

  /** Sleeps until `ms` have passed, the loop stops, or `ended` resolves. Leaves no listener on the signal. */
  async function pause(ms: number, signal: AbortSignal, ended: Promise<undefined> | undefined): Promise<void> {
    const awake = new AbortController()
    const wake = (): void => awake.abort()
    if (signal.aborted) wake()
    signal.addEventListener('abort', wake)
    void ended?.then(wake)
    await clock.sleep(ms, awake.signal)
    signal.removeEventListener('abort', wake)
  }

  async function stop(): Promise<void> {
    // A running take may still return jobs, which it gives back.
    const within = async (ms: number): Promise<void> => {
      const done = new AbortController()
      await Promise.race([Promise.allSettled([taking, ...underWay]), clock.sleep(ms, done.signal)])
      done.abort()
    }
    await within(graceMs)
    abort()
    await within(releaseMs)
  }

  return {
    name,
    run: async (signal) => {
      try {
        await takeUntilStopped(stopping ? AbortSignal.any([signal, stopping]) : signal)
      } finally {
        await stop()
      }
    },
  }
}
