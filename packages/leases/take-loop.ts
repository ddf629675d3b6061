import type { Clock } from '@sluice/runtime/clock'
import { internalMessage, isRetryable } from '@sluice/runtime/errors'
import { settledOrStopped } from '@sluice/runtime/settled-or-aborted'
import type { Component } from '@sluice/runtime/supervisor'

export interface TakeLoopOptions {
  /** The component's name. */
  name: string
  clock: Clock
  /** Aborts when the process begins to stop; the component itself is stopped later, after the last request. */
  stopping?: AbortSignal
  /**
   * Takes due jobs up to the number of free slots, starts the work on them, and hands each piece of work to `follow` as
   * a promise that never rejects. What arrives after `signal` has aborted is given back.
   */
  take: (signal: AbortSignal, follow: (work: Promise<void>) => void) => Promise<void>
  /** Aborts the work under way, which gives back what it has not finished. */
  abort: () => void
  /** Says that nothing can be taken now, for reasons that pass. */
  warn: (fields: { error: string }) => void
}

const takeMs = 1_000
/** Takes back off up to this many ms while Postgres is unavailable. */
const longestBackoffMs = 10_000
/** Time after a stop in which running work may finish, in ms. */
const graceMs = 5_000
/** Time for aborted work to end and to be given back. A Postgres that hangs is not waited for. */
const releaseMs = 1_500

/**
 * Takes each second, and as soon as a piece of work has ended. A stop takes nothing more, waits 5 s for the work under
 * way, aborts it and lets it give back what it holds, within 7 s. Errors of `take` that are not retryable end the
 * component.
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

  /** Sleeps until `ms` have passed, the loop stops, or `ended` resolves. Leaves nothing at the signal. */
  async function pause(ms: number, signal: AbortSignal, ended: Promise<undefined> | undefined): Promise<void> {
    const awake = new AbortController()
    const wake = (): void => {
      awake.abort()
    }
    if (signal.aborted) wake()
    signal.addEventListener('abort', wake)
    void ended?.then(wake)
    await clock.sleep(ms, awake.signal)
    signal.removeEventListener('abort', wake)
  }

  async function stop(): Promise<void> {
    // A take that is under way may still bring work, which it gives back.
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
