import { acceptance } from '@sluice/contracts/acceptance'
import type { Block } from '@sluice/contracts/block'
import { unavailable } from '@sluice/contracts/errors'
import { withDeadline } from '@sluice/runtime/deadline'
import { Counter, Gauge, Histogram, type Metrics } from '@sluice/runtime/metrics'
import { type BlockEncoder, blockEncoder, type EncodedEvent } from './encode-blocks.ts'

/** What the gateway needs of the log. */
export interface PublishLog {
  partitions(): Promise<number>
  publish(blocks: readonly Block[], options: { timeoutMs: number }): Promise<void>
}

export interface Publisher {
  /**
   * Resolves when every event is durable in the log. Throws SluiceError 503 when it can't take them now, or too long
   * after `receivedAt` (Unix ms); some may be durable all the same, so the sender repeats them with the same `event_id`.
   */
  publish(events: readonly EncodedEvent[], receivedAt: number): Promise<void>
}

/** While a publish is under way, the next one gathers requests for this long … */
const gatherMs = 5
/** … or until it holds this many bytes … */
const flushBytesMax = 512 * 1024
/**
 * … or until this long after it ended: those that were answered with it send their next ones now, and one publish of
 * all costs half as much as two of some (docs/benchmarks.md).
 */
const gatherAfterMs = 2
/** A log that had nothing to do for so long gets the next event at once. */
const quietMs = 10
/** Accepted and not yet acknowledged; from there on the answer is 503 at once. */
const unacknowledgedBytesMax = 64 * 1024 * 1024
/** Leaves room in the 2.5 s within which a 503 must come. */
const publishTimeoutMs = 1_900

interface Waiting {
  events: number
  bytes: number
  receivedAt: number
  resolve: () => void
  reject: (error: unknown) => void
}

/**
 * Coalesces concurrent requests into one publish: at once after a quiet time, else within a few milliseconds.
 * A request is answered when the publish that carries it was acknowledged.
 */
export function createPublisher(log: PublishLog, metrics: Metrics): Publisher {
  const published = new Counter({
    name: 'sluice_gateway_events_published_total',
    help: 'Events acknowledged by the log.',
    registers: [metrics],
  })
  const failed = new Counter({
    name: 'sluice_gateway_publish_failures_total',
    help: 'Publishes that the log did not acknowledge.',
    registers: [metrics],
  })
  const seconds = new Histogram({
    name: 'sluice_gateway_publish_seconds',
    help: 'Time from a publish to its acknowledgement.',
    registers: [metrics],
  })
  new Gauge({
    name: 'sluice_gateway_unacknowledged_bytes',
    help: 'Accepted, not yet acknowledged by the log.',
    registers: [metrics],
    collect() {
      this.set(unacknowledgedBytes)
    },
  })

  let waiting: Waiting[] = []
  let waitingBytes = 0
  /** Of what waits. */
  let encoder: BlockEncoder | undefined
  let unacknowledgedBytes = 0
  let inFlight = 0
  /** When the last publish ended. */
  let endedAt = -Infinity
  let timer: NodeJS.Timeout | undefined
  let soon: NodeJS.Immediate | undefined
  let turn = 0
  /** Constant while the log is open. */
  let partitions: number | undefined

  async function flush(): Promise<void> {
    clearTimeout(timer)
    clearImmediate(soon)
    timer = undefined
    soon = undefined
    if (waiting.length === 0) return
    const requests = waiting
    const gathered = encoder
    waiting = []
    waitingBytes = 0
    encoder = undefined
    inFlight++
    const stopTimer = seconds.startTimer()
    try {
      await log.publish(gathered?.finish() ?? [], { timeoutMs: publishTimeoutMs })
      published.inc(requests.reduce((sum, { events }) => sum + events, 0))
      for (const request of requests) answer(request)
    } catch (error) {
      failed.inc()
      for (const { reject } of requests) reject(error)
    } finally {
      stopTimer()
      inFlight--
      for (const { bytes } of requests) unacknowledgedBytes -= bytes
      endedAt = performance.now()
      if (waiting.length > 0 && inFlight === 0) {
        clearTimeout(timer)
        timer = setTimeout(flushSoon, gatherAfterMs)
      }
    }
  }

  /** For timers: made once, so that a timer holds on to no request. */
  const flushSoon = (): void => {
    void flush()
  }

  function gather(events: readonly EncodedEvent[], receivedAt: number, into: number): Promise<void> {
    // Before they are bytes their number is not known: what comes over the limit is the last to come.
    if (unacknowledgedBytes >= unacknowledgedBytesMax) {
      return Promise.reject(unavailable('too many bytes wait for the log'))
    }
    encoder ??= blockEncoder({ partitions: into, freePartition: turn++ % into })
    const bytes = encoder.add(events)
    unacknowledgedBytes += bytes
    return new Promise((resolve, reject) => {
      waiting.push({ events: events.length, bytes, receivedAt, resolve, reject })
      waitingBytes += bytes
      if (waitingBytes >= flushBytesMax) void flush()
      else if (inFlight > 0) timer ??= setTimeout(flushSoon, gatherMs)
      else if (performance.now() - endedAt < quietMs) timer ??= setTimeout(flushSoon, gatherAfterMs)
      // Once the requests that arrived together have been read.
      else soon ??= setImmediate(flushSoon)
    })
  }

  async function learnAndGather(events: readonly EncodedEvent[], receivedAt: number): Promise<void> {
    partitions = await log.partitions()
    await gather(events, receivedAt, partitions)
  }

  return {
    publish: (events, receivedAt) => {
      if (partitions !== undefined) return gather(events, receivedAt, partitions)
      // A log that was never reached may take its time to tell, and more than the sender's.
      return withDeadline(learnAndGather(events, receivedAt), publishTimeoutMs, () =>
        unavailable('the log does not answer'),
      )
    },
  }
}

/**
 * Answers a request whose events are durable. Not after a process that stood still: readers have been told by then that
 * nothing of that time is missing.
 */
function answer({ receivedAt, resolve, reject }: Waiting): void {
  if (Date.now() - receivedAt <= acceptance.msMax) resolve()
  else reject(unavailable(`acknowledged more than ${acceptance.msMax} ms after the receipt`))
}
