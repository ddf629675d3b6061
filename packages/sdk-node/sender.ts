import { type Answer, backoffMs, isClockError, limitPauseMs, readAnswer } from '@sluice/sdk-core/read-answer'
import type { Report } from './error-reporter.ts'
import { runOutsideRequest } from './event-context.ts'
import type { EventQueue, WaitingEvent } from './event-queue.ts'
import type { PostEvents } from './post-events.ts'
import type { ServerClock } from './server-clock.ts'

/** A request is sent when this many events wait, when the queue is half full, or this many ms after the first event. */
const batch = { events: 500, ms: 1_000 } as const
const requestsMax = 4
/** The longest pause that a response may ask for, in ms. */
const pauseMsMax = 600_000
/** Failed requests in a row after which `unavailable` is reported. */
const failuresBeforeReport = 3

export interface SenderParts {
  queue: EventQueue
  post: PostEvents
  clock: ServerClock
  report: Report
  /** Called when an event is stored, or refused for good with `error`, and leaves the queue. */
  onSettled: (waiting: WaitingEvent, error?: string) => void
  /**
   * Called when an event was refused because of its time. Returns whether the time was corrected; false: it is refused
   * for good.
   */
  onTimeRefused: (waiting: WaitingEvent, behindMs: number) => boolean
  /** Called when Sluice refuses the key. */
  onStopped: () => void
}

/** Sends the events of the queue until Sluice has answered for them. */
export interface Sender {
  /** Call it when an event was added to the queue. */
  wake(): void
  /**
   * Until the returned function is called, sends without waiting for more events, and waits for a second at most after
   * each failure.
   */
  skipDelays(): () => void
  /** Whether Sluice has refused the key. */
  isStopped(): boolean
  /** Stops sending, and ends the running requests. */
  close(): void
}

/** Creates a sender. Its timers do not keep the process running. */
export function eventSender(parts: SenderParts): Sender {
  const { queue, post, clock, report, onSettled, onTimeRefused, onStopped } = parts
  let running = 0
  let failures = 0
  /** Times of performance.now() until which nothing is sent: `asked` by Retry-After, `backoff` after a failure. */
  const until = { asked: 0, backoff: 0 }
  let isDue = false
  let isStopped = false
  const closing = new AbortController()
  let isClockWrong = false
  let delaySkips = 0
  /** The last response. */
  let answered: Answer | undefined
  let timer: NodeJS.Timeout | undefined

  function wakeIn(ms: number): void {
    timer ??= setTimeout(() => {
      timer = undefined
      isDue = true
      pump()
    }, ms).unref()
  }

  function pump(): void {
    if (isStopped || closing.signal.aborted) return
    const pause = Math.max(Math.max(until.asked, until.backoff) - performance.now(), limitPause())
    if (pause > 0) {
      clearTimeout(timer)
      timer = undefined
      wakeIn(Math.ceil(pause))
      return
    }
    // While requests fail, only one is sent at a time.
    while (running < (failures > 0 ? 1 : requestsMax)) {
      const mayWait = !isDue && delaySkips === 0 && queue.waiting() < batch.events && !queue.isHalfFull()
      if (mayWait && !queue.hasRequeued()) break
      const events = queue.take()
      if (events.length === 0) break
      void send(events)
    }
    if (queue.waiting() === 0) isDue = false
    else wakeIn(batch.ms)
  }

  async function send(events: readonly WaitingEvent[]): Promise<void> {
    running++
    const began = clock.wall()
    const failuresBefore = failures
    const answer = await post(
      events.map(({ event }) => event.json),
      closing.signal,
    )
    running--
    if (closing.signal.aborted) return
    const behindMs = learnTime(answer, began)
    const step = readAnswer(answer, events.length)
    switch (step.next) {
      case 'done':
        settle(events, step, behindMs)
        failures = 0
        break
      case 'split':
        failures = 0
        queue.requeue(...halves(events))
        break
      case 'repeat':
        queue.requeue(...(isPastLimit(answer, events.length) ? halves(events) : [events]))
        fail(failuresBefore, step)
        break
      case 'stop':
        queue.requeue(events)
        stop(step.error)
        break
    }
    if (answer.status !== 0) answered = answer
    pump()
  }

  /** Milliseconds until the key's limit, according to the last response, allows the next request. */
  function limitPause(): number {
    // After a 413 for more events than the limit, all of the limit is left.
    const limit = Number(answered?.headers?.get('x-ratelimit-limit') ?? Infinity)
    const next = Math.min(queue.size(), batch.events, limit)
    return answered && next > 0 ? Math.min(limitPauseMs(answered, next, clock.now()), pauseMsMax) : 0
  }

  function learnTime({ body }: Answer, beganMs: number): number {
    if (typeof body?.timestamp !== 'number') return 0
    const behindMs = clock.learn(body.timestamp, beganMs)
    if (behindMs !== 0 && !isClockWrong) {
      const seconds = Math.round(Math.abs(behindMs) / 1_000)
      const side = behindMs > 0 ? 'behind' : 'ahead of'
      report(
        'clock_wrong',
        `The clock of this machine is ${seconds} s ${side} that of Sluice; events get the time of Sluice`,
      )
    }
    isClockWrong = behindMs !== 0
    return behindMs
  }

  type Done = Extract<ReturnType<typeof readAnswer>, { next: 'done' }>

  function settle(events: readonly WaitingEvent[], { refused, more }: Done, behindMs: number): void {
    const errors = new Map(refused)
    const again: WaitingEvent[] = []
    for (const [index, waiting] of events.entries()) {
      const error = errors.get(index)
      if (error === undefined) {
        if (more) again.push(waiting)
        else onSettled(waiting)
      } else if (!waiting.event.isTimeFinal && isClockError(error) && onTimeRefused(waiting, behindMs))
        again.push(waiting)
      else onSettled(waiting, error)
    }
    queue.requeue(again)
  }

  function fail(failuresBefore: number, { afterMs, error }: { afterMs: number; error: string }): void {
    // Concurrent requests that fail together count as one failure.
    if (failures === failuresBefore) {
      failures++
      if (failures === failuresBeforeReport) {
        const waiting = queue.size()
        report('unavailable', `Sluice did not take events ${failures} times (${error}); ${waiting} wait`, {
          count: waiting,
        })
      }
    }
    const retryAt = performance.now() + Math.min(afterMs, pauseMsMax)
    until.asked = Math.max(until.asked, retryAt)
    // A random time of up to a second keeps clients from sending at the same moment, also after a Retry-After.
    until.backoff = retryAt + backoffMs(afterMs > 0 || delaySkips > 0 ? 0 : failures - 1)
  }

  function stop(error: string): void {
    if (isStopped) return
    isStopped = true
    const waiting = queue.size()
    report('key_refused', `Sluice refuses the key (${error}); ${waiting} events wait`, { count: waiting })
    onStopped()
  }

  return {
    wake: () => runOutsideRequest(pump),
    skipDelays: () => {
      delaySkips++
      isStopped = false
      until.backoff = 0
      clearTimeout(timer)
      timer = undefined
      runOutsideRequest(pump)
      let isOver = false
      return () => {
        if (!isOver) delaySkips--
        isOver = true
      }
    },
    isStopped: () => isStopped,
    close: () => {
      closing.abort()
      clearTimeout(timer)
    },
  }
}

function halves<T>(list: readonly T[]): [readonly T[], readonly T[]] {
  return [list.slice(0, list.length / 2), list.slice(list.length / 2)]
}

/**
 * Whether a request with `count` events was refused because the key's limit has fewer left. While other processes use
 * the key, there may never be enough left for all of them.
 */
function isPastLimit({ status, headers }: Answer, count: number): boolean {
  return status === 429 && Number(headers?.get('x-ratelimit-remaining') ?? Infinity) < count
}
