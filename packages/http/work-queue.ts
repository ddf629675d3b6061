import { performance } from 'node:perf_hooks'
import { type AppError, unavailable } from '@sluice/runtime/errors'
import { Counter, Gauge, type Metrics } from '@sluice/runtime/metrics'

/**
 * The requests that have been read and wait for the processor. All handlers share one thread. If handlers kept it for
 * long, further requests would wait in the buffers of their sockets, where their waiting time can't be measured. So the
 * handlers that one turn of the event loop begins share a slice of time. The other requests wait here, the oldest
 * first, until the sockets have been read again.
 */
export interface WorkQueue {
  /**
   * For a request that has just arrived. Throws the 503 if the oldest waiting request has waited too long: more
   * requests arrive than the process can handle (docs/decisions/016-overload.md).
   */
  requireArrivalRoom(): void
  /** For a request that was read at `readAt` (`performance.now()`). Throws the 503 if it is too late to begin with it. */
  requireInTime(readAt: number): void
  /**
   * Waits until the handler of the request may begin; undefined when it may at once. Rejects with the 503 when the
   * request has waited for too long.
   */
  turn(readAt: number): Promise<void> | undefined
}

/** The times that decide when requests are read, handled and refused, in ms. */
export interface WorkQueueTimes {
  /** Time for the handlers that one turn of the event loop begins. */
  sliceMs: number
  /** Time for reading sockets between two such slices, while requests wait. */
  readingMsMax: number
  /** While a request waits for longer, no further one is read. */
  arrivalWaitMsMax: number
  /**
   * A request that has waited for longer is refused. Every request is answered within 2.5 s, and a publish may take the
   * rest of that time.
   */
  waitMsMax: number
}

const defaultTimes: WorkQueueTimes = { sliceMs: 10, readingMsMax: 3, arrivalWaitMsMax: 1_000, waitMsMax: 1_500 }

interface WaitingRequest {
  readAt: number
  resolve: () => void
  reject: (error: AppError) => void
}

/** An empty queue. Tests give other `times`. */
export function createWorkQueue(metrics: Metrics, times: WorkQueueTimes = defaultTimes): WorkQueue {
  const { sliceMs, readingMsMax, arrivalWaitMsMax, waitMsMax } = times
  const waiting: WaitingRequest[] = []
  /** `performance.now()` when the sockets began to be read after a slice; undefined at other times. */
  let readingSince: number | undefined
  /** Events that the event loop had processed at its last turn. */
  let eventsSeen = -1
  /** `performance.now()` at the first handler of this turn of the event loop; undefined before it. */
  let sliceBeganAt: number | undefined
  const shed = new Counter({
    name: 'sluice_http_shed_requests_total',
    help: 'Requests that were refused because requests wait too long for the processor.',
    registers: [metrics],
  })
  new Gauge({
    name: 'sluice_http_waiting_seconds',
    help: 'Time for which the oldest request that has been read waits for the processor.',
    registers: [metrics],
    collect() {
      this.set(oldestWaitMs() / 1000)
    },
  })

  function oldestWaitMs(): number {
    const [oldest] = waiting
    return oldest === undefined ? 0 : performance.now() - oldest.readAt
  }

  /** One error for all refusals, because a stack for each would be 7 % of the cost of a refusal. */
  const refusal = unavailable('requests wait too long for the processor')

  function refuse(): AppError {
    shed.inc()
    return refusal
  }

  function beginSlice(now: number): void {
    sliceBeganAt = now
    setImmediate(endSlice)
  }

  /**
   * Begins the next slice once the sockets have been read: when a turn of the event loop processed no event, or after
   * `readingMsMax`. One turn is not enough, because libuv accepts a single connection and reads 64 KiB of each socket
   * in a turn.
   */
  function endSlice(): void {
    sliceBeganAt = undefined
    if (waiting.length === 0) {
      readingSince = undefined
      return
    }
    const now = performance.now()
    readingSince ??= now
    const { events } = performance.nodeTiming.uvMetricsInfo
    if (events !== eventsSeen && now - readingSince < readingMsMax) {
      eventsSeen = events
      setImmediate(endSlice)
      return
    }
    readingSince = undefined
    beginSlice(now)
    next()
  }

  /**
   * Starts the oldest waiting request, and the next one when the handler of the first waits for I/O for the first time.
   */
  function next(): void {
    const now = performance.now()
    if (sliceBeganAt === undefined || now - sliceBeganAt >= sliceMs) return
    const request = waiting.shift()
    if (request === undefined) return
    if (now - request.readAt > waitMsMax) request.reject(refuse())
    else request.resolve()
    // `process.nextTick` from a microtask runs after all pending promise callbacks, that is when the handler waits for
    // I/O for the first time.
    queueMicrotask(scheduleNext)
  }

  const scheduleNext = (): void => process.nextTick(next)

  return {
    requireArrivalRoom: () => {
      if (oldestWaitMs() > arrivalWaitMsMax) throw refuse()
    },
    requireInTime: (readAt) => {
      if (performance.now() - readAt > waitMsMax) throw refuse()
    },
    turn: (readAt) => {
      if (waiting.length === 0) {
        const now = performance.now()
        if (sliceBeganAt === undefined) {
          beginSlice(now)
          return undefined
        }
        if (now - sliceBeganAt < sliceMs) return undefined
      }
      return new Promise((resolve, reject) => {
        waiting.push({ readAt, resolve, reject })
      })
    },
  }
}
