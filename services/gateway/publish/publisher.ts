import type { Block } from '@sluice/contracts/block'
import { unavailable } from '@sluice/contracts/errors'
import { withDeadline } from '@sluice/runtime/deadline'
import { Counter, Gauge, Histogram, type Metrics } from '@sluice/runtime/metrics'
import { encodeBlocks, type EncodedEvent } from './encode-blocks.ts'

/** What the gateway needs of the log. */
export interface PublishLog {
  partitions(): Promise<number>
  publish(blocks: readonly Block[], options: { timeoutMs: number }): Promise<void>
}

export interface Publisher {
  /**
   * Resolves when every event is durable in the log. Throws SluiceError 503 when it can't take them now; some may be
   * durable all the same, so the sender repeats them with the same `event_id`.
   */
  publish(events: readonly EncodedEvent[]): Promise<void>
}

/** While a flush is under way, the next one gathers requests for this long … */
const gatherMs = 5
/** … or until it holds this many characters. */
const flushLengthMax = 512 * 1024
/** Characters accepted and not yet acknowledged; beyond it the answer is 503 at once. */
const unacknowledgedLengthMax = 64 * 1024 * 1024
/** Leaves room in the 2.5 s within which a 503 must come. */
const publishTimeoutMs = 2_000

interface Waiting {
  events: readonly EncodedEvent[]
  length: number
  resolve: () => void
  reject: (error: unknown) => void
}

/**
 * Coalesces concurrent requests into one publish: at once when nothing is in flight, else after a few milliseconds.
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
  const unacknowledged = new Gauge({
    name: 'sluice_gateway_unacknowledged_bytes',
    help: 'Accepted, not yet acknowledged by the log.',
    registers: [metrics],
  })

  let waiting: Waiting[] = []
  let waitingLength = 0
  let unacknowledgedLength = 0
  let inFlight = 0
  let timer: NodeJS.Timeout | undefined
  let soon: NodeJS.Immediate | undefined
  let turn = 0
  /** Constant while the log is open. */
  let partitions: number | undefined

  /** A log that was never reached may take its time to find out, and more than the sender's. */
  function askPartitions(): Promise<number> {
    return withDeadline(log.partitions(), publishTimeoutMs, () => unavailable('the log does not tell its partitions'))
  }

  async function flush(): Promise<void> {
    clearTimeout(timer)
    clearImmediate(soon)
    timer = undefined
    soon = undefined
    if (waiting.length === 0) return
    const requests = waiting
    waiting = []
    waitingLength = 0
    inFlight++
    const stopTimer = seconds.startTimer()
    try {
      const started = performance.now()
      partitions ??= await askPartitions()
      const events = requests.flatMap((request) => request.events)
      const blocks = encodeBlocks(events, { partitions, freePartition: turn++ % partitions })
      const timeoutMs = Math.max(1, publishTimeoutMs - (performance.now() - started))
      await log.publish(blocks, { timeoutMs })
      published.inc(events.length)
      for (const { resolve } of requests) resolve()
    } catch (error) {
      failed.inc()
      for (const { reject } of requests) reject(error)
    } finally {
      stopTimer()
      inFlight--
      for (const { length } of requests) unacknowledgedLength -= length
      unacknowledged.set(unacknowledgedLength)
      if (waiting.length > 0 && inFlight === 0) void flush()
    }
  }

  return {
    publish: (events) => {
      const length = events.reduce((sum, { line }) => sum + line.length, 0)
      if (unacknowledgedLength + length > unacknowledgedLengthMax) {
        return Promise.reject(unavailable('too many bytes wait for the log'))
      }
      unacknowledgedLength += length
      unacknowledged.set(unacknowledgedLength)
      return new Promise((resolve, reject) => {
        waiting.push({ events, length, resolve, reject })
        waitingLength += length
        if (waitingLength >= flushLengthMax) void flush()
        // Once the requests that arrived together have been read.
        else if (inFlight === 0) soon ??= setImmediate(() => void flush())
        else timer ??= setTimeout(() => void flush(), gatherMs)
      })
    },
  }
}
