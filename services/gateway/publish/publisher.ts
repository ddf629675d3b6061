import { acceptance } from '@sluice/event-log/acceptance-deadline'
import type { Block } from '@sluice/event-log/block'
import { type BlockEncoder, blockEncoder } from '@sluice/event-log/encode-blocks'
import type { PublishOptions } from '@sluice/event-log/log'
import type { EncodedEvent } from '@sluice/events/encode-event'
import { withDeadline } from '@sluice/runtime/deadline'
import { type AppError, unavailable } from '@sluice/runtime/errors'
import { Counter, Gauge, Histogram, type Metrics } from '@sluice/runtime/metrics'
import { sum } from '@sluice/runtime/sum'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { activeTraceparent, linksMax, sampledSpan, type SpanContext, traced } from '@sluice/runtime/tracing'

/** The part of EventLog that the gateway uses. */
export interface PublishLog {
  partitions(): Promise<number>
  publish(blocks: readonly Block[], options: PublishOptions): Promise<void>
}

/** Publishes accepted events to the log. */
export interface Publisher {
  /**
   * Resolves when every event is durable in the log. Throws AppError `unavailable` when the log can't take them now, or
   * acknowledges them too long after `receivedAt` (Unix ms). Some may then be durable nevertheless, so the sender
   * retries with the same `event_id`.
   */
  publish(events: readonly EncodedEvent[], receivedAt: number): Promise<void>
}

/**
 * Bytes for each partition with which a publish starts without waiting for further requests. A broker and its clients
 * pay for each block, whatever its size: with 100 partitions, a publish of 512 KiB would make blocks of 10 events.
 */
const flushBytesPerPartition = 64 * 1024
/** Longest time, for each partition, for which the next publish collects requests while another one is in flight. */
const lingerMsPerPartition = 5 / 8
/**
 * Bounds of the number of partitions in the two products above. With more, publishes would be too large, or requests
 * would wait too long.
 */
const countedPartitions = { min: 8, max: 64 }
/**
 * Time for which pending requests wait after the publish in flight has ended. Its clients send their next requests now,
 * and one publish of all requests costs half as much as two smaller ones. With twice the time, the gateway is idle for a
 * quarter of the time while its clients wait (docs/benchmarks.md).
 */
const lingerAfterPublishMs = 1
/** After this time without a publish, the next event is published at once. */
const idleThresholdMs = 10
/** Bytes that are accepted and not yet acknowledged; beyond this limit requests are answered 503 at once. */
const unacknowledgedBytesMax = 64 * 1024 * 1024
/**
 * Longest time from the receipt to the outcome of a publish: less than the 2.5 s within which a 503 must be sent. A
 * request may have waited for the processor before.
 */
const answerMsMax = 2_400
/** Longest and shortest timeout of a publish, the latter for requests that were received long ago. */
const publishTimeoutMs = { max: 1_900, min: 500 }

/** State that the publishers of a process share: metrics, and the limit of unacknowledged bytes. */
export interface PublishState {
  published: Counter
  failed: Counter
  seconds: Histogram
  unacknowledgedBytes: number
}

/** Registers the metrics of publishes; to be called once for each process. */
export function createPublishState(metrics: Metrics): PublishState {
  const registers = [metrics]
  const state: PublishState = {
    published: new Counter({
      name: 'sluice_gateway_events_published_total',
      help: 'Events acknowledged by the log.',
      registers,
    }),
    failed: new Counter({
      name: 'sluice_gateway_publish_failures_total',
      help: 'Publishes that the log did not acknowledge.',
      registers,
    }),
    seconds: new Histogram({
      name: 'sluice_gateway_publish_seconds',
      help: 'Time from a publish to its acknowledgement.',
      // A publish that takes longer than acceptance.msMax is given up.
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
      registers,
    }),
    unacknowledgedBytes: 0,
  }
  new Gauge({
    name: 'sluice_gateway_unacknowledged_bytes',
    help: 'Bytes of events that the log has not acknowledged yet.',
    registers,
    collect() {
      this.set(state.unacknowledgedBytes)
    },
  })
  return state
}

interface PendingRequest {
  events: number
  bytes: number
  /** The partitions of its events. */
  partitions: readonly number[]
  receivedAt: number
  resolve: () => void
  reject: (error: unknown) => void
}

/**
 * Coalesces concurrent requests into one publish, which starts at once after an idle time, otherwise within a few
 * milliseconds. A request settles with the publish of its events, or earlier if its own events are durable and those of
 * others are not yet. A partition that refuses writes thus fails no request whose events are in other partitions.
 */
export function createPublisher(
  log: PublishLog,
  state: PublishState,
  clock: Pick<SynchronizedClock, 'latest'>,
): Publisher {
  const { published, failed, seconds } = state
  let pending: PendingRequest[] = []
  let pendingBytes = 0
  /** Encoder of the pending requests. */
  let encoder: BlockEncoder | undefined
  /** Sampled spans of the pending requests. */
  let requestSpans: SpanContext[] = []
  let inFlight = 0
  /** Time at which the last publish ended, by `performance.now()`. */
  let endedAt = -Infinity
  let timer: NodeJS.Timeout | undefined
  let immediate: NodeJS.Immediate | undefined
  let flushNumber = 0
  /** Number of partitions, which is constant while the log is open. */
  let partitions: number | undefined
  let flushBytesMax = 0
  let lingerMs = 0

  async function flush(): Promise<void> {
    clearTimeout(timer)
    clearImmediate(immediate)
    timer = undefined
    immediate = undefined
    if (pending.length === 0) return
    /** The requests that have not settled. */
    let requests = pending
    const finishedEncoder = encoder
    const spans = requestSpans
    pending = []
    pendingBytes = 0
    encoder = undefined
    if (spans.length > 0) requestSpans = []
    inFlight++
    const stopTimer = seconds.startTimer()
    const durable = new Set<number>()
    const onDurable = (partitionsNow: readonly number[]): void => {
      for (const partition of partitionsNow) durable.add(partition)
      const isDurable = (request: PendingRequest): boolean => request.partitions.every((each) => durable.has(each))
      const settled = requests.filter(isDurable)
      requests = requests.filter((request) => !isDurable(request))
      acceptRequests(settled)
    }
    try {
      const blocks = finishedEncoder?.finish() ?? []
      const options = { timeoutMs: publishTimeoutOf(requests, clock.latest()), onDurable }
      await (spans.length === 0 ? log.publish(blocks, options) : publishTraced(log, blocks, { ...options, spans }))
      acceptRequests(requests)
    } catch (error) {
      failed.inc()
      const rejected = requests
      requests = []
      for (const { bytes, reject } of rejected) {
        state.unacknowledgedBytes -= bytes
        reject(error)
      }
    } finally {
      stopTimer()
      inFlight--
      endedAt = performance.now()
      if (pending.length > 0 && inFlight === 0) {
        clearTimeout(timer)
        timer = setTimeout(flushAfterReads, lingerAfterPublishMs)
      }
    }
  }

  /** Settles requests whose events are durable. */
  function acceptRequests(requests: readonly PendingRequest[]): void {
    published.inc(sum(requests.map(({ events }) => events)))
    // Read after the acknowledgement.
    const latest = clock.latest()
    for (const request of requests) {
      state.unacknowledgedBytes -= request.bytes
      settleRequest(request, latest)
    }
  }

  /**
   * Publishes after the requests that have arrived have been read: a timer of a busy process is late. One callback for
   * all timers, so that a timer keeps no request alive.
   */
  const flushAfterReads = (): void => {
    immediate ??= setImmediate(() => void flush())
  }

  function enqueue(events: readonly EncodedEvent[], receivedAt: number, partitionCount: number): Promise<void> {
    // The size of these events is known only after they are encoded, so that one request may exceed the limit.
    if (state.unacknowledgedBytes >= unacknowledgedBytesMax) {
      return Promise.reject(unavailable('too many bytes wait for the log'))
    }
    // A late request would be answered 503 after its publish, so it is not published.
    if (isLate(receivedAt, clock.latest())) return Promise.reject(tooLate())
    encoder ??= blockEncoder({ partitions: partitionCount, defaultPartition: flushNumber++ % partitionCount })
    const { bytes, partitions: requestPartitions } = encoder.add(events)
    state.unacknowledgedBytes += bytes
    const requestSpan = sampledSpan()
    if (requestSpan !== undefined && requestSpans.length < linksMax) requestSpans.push(requestSpan)
    return new Promise((resolve, reject) => {
      pending.push({ events: events.length, bytes, partitions: requestPartitions, receivedAt, resolve, reject })
      pendingBytes += bytes
      if (pendingBytes >= flushBytesMax) void flush()
      else if (inFlight > 0) timer ??= setTimeout(flushAfterReads, lingerMs)
      else if (performance.now() - endedAt < idleThresholdMs)
        timer ??= setTimeout(flushAfterReads, lingerAfterPublishMs)
      else flushAfterReads()
    })
  }

  async function enqueueAfterPartitions(events: readonly EncodedEvent[], receivedAt: number): Promise<void> {
    // A log that was never reached may take longer to respond than the sender waits.
    partitions = await withDeadline(log.partitions(), publishTimeoutMs.max, () =>
      unavailable('the log does not answer'),
    )
    const counted = Math.min(countedPartitions.max, Math.max(countedPartitions.min, partitions))
    flushBytesMax = flushBytesPerPartition * counted
    lingerMs = lingerMsPerPartition * counted
    await enqueue(events, receivedAt, partitions)
  }

  return {
    publish: (events, receivedAt) =>
      partitions === undefined ? enqueueAfterPartitions(events, receivedAt) : enqueue(events, receivedAt, partitions),
  }
}

/** Publishes in a span for all requests of the publish, whose traceparent is a header of each block. */
function publishTraced(
  log: PublishLog,
  blocks: readonly Block[],
  { spans, ...options }: PublishOptions & { spans: readonly SpanContext[] },
): Promise<void> {
  return traced(
    'publish',
    { kind: 'producer', parentAndLinks: spans, attributes: { 'sluice.blocks': blocks.length } },
    () => {
      const traceparent = activeTraceparent()
      const named = blocks.map((block) => ({
        ...block,
        headers: { ...block.headers, ...(traceparent && { traceparent }) },
      }))
      return log.publish(named, options)
    },
  )
}

/**
 * Resolves a request whose events are durable, or rejects it when it may be too late, after a suspension of the process
 * for example: `complete_until` may by then include the time of its receipt. `latest`: `SynchronizedClock.latest()`.
 */
function settleRequest({ receivedAt, resolve, reject }: PendingRequest, latest: number): void {
  if (isLate(receivedAt, latest)) reject(tooLate())
  else resolve()
}

function isLate(receivedAt: number, latest: number): boolean {
  return latest - receivedAt > acceptance.msMax
}

function tooLate(): AppError {
  return unavailable(`not acknowledged within ${acceptance.msMax} ms of the receipt`)
}

/** The time that the request received first leaves for the publish. `latest`: `SynchronizedClock.latest()`. */
function publishTimeoutOf(requests: readonly PendingRequest[], latest: number): number {
  const receivedAt = Math.min(...requests.map((request) => request.receivedAt))
  return Math.min(publishTimeoutMs.max, Math.max(publishTimeoutMs.min, answerMsMax - (latest - receivedAt)))
}
