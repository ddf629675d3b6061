import { describe, expect, test } from '@jest/globals'
import { acceptance } from '@sluice/event-log/acceptance-deadline'
import type { Block } from '@sluice/event-log/block'
import type { PublishOptions } from '@sluice/event-log/log'
import type { EncodedEvent } from '@sluice/events/encode-event'
import { unavailable } from '@sluice/runtime/errors'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { type SynchronizedClock, synchronizedClock } from '@sluice/runtime/synchronized-clock'
import { exactClock } from '../../../tests/support/clock.ts'
import { startStopwatch } from '../../../tests/support/stopwatch.ts'
import * as publishing from './publisher.ts'

const mebibyte = 1024 * 1024

/** A publish that the test settles. */
interface Call {
  lines: string[]
  blocks: readonly Block[]
  timeoutMs: number
  /** Acknowledges the blocks of some partitions. */
  acknowledgePartitions: (partitions: readonly number[]) => void
  acknowledge: () => void
  refuse: (error: unknown) => void
}

/** A log whose publishes the test settles. */
function scriptedLog(partitions: () => Promise<number> = () => Promise.resolve(4)) {
  const calls: Call[] = []
  const watchers: (() => void)[] = []
  return {
    calls,
    log: {
      partitions,
      publish: (blocks: readonly Block[], { timeoutMs, onDurable }: PublishOptions) => {
        const { promise, resolve, reject } = Promise.withResolvers<undefined>()
        const lines = blocks.flatMap(({ payload }) => payload.toString().split('\n').slice(0, -1))
        const acknowledge = (): void => resolve(undefined)
        const acknowledgePartitions = (durable: readonly number[]): void => onDurable?.(durable)
        calls.push({ lines, blocks, timeoutMs, acknowledgePartitions, acknowledge, refuse: reject })
        for (const watch of watchers) watch()
        return promise
      },
    },
    /** Resolves with the n-th publish (from 0) once it has begun. */
    call: (n: number) =>
      new Promise<Call>((resolve) => {
        const watch = (): void => {
          const call = calls[n]
          if (call) resolve(call)
        }
        watchers.push(watch)
        watch()
      }),
  }
}

/** An event for the partition `keyHash`, or for that of the publish. */
function event(line: string, keyHash?: number): EncodedEvent {
  return { line: `${line}\n`, timestamp: 0, keyHash, undated: false, siteId: 'shop' }
}

/** Publishes events that are received now, unless the test gives a time. */
function createPublisher(
  log: publishing.PublishLog,
  metrics: Metrics,
  clock: Pick<SynchronizedClock, 'latest'> = exactClock,
) {
  const publisher = publishing.createPublisher(log, publishing.createPublishState(metrics), clock)
  return {
    publish: (events: readonly EncodedEvent[], receivedAt = Date.now()) => publisher.publish(events, receivedAt),
  }
}

type Publisher = ReturnType<typeof createPublisher>

function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pendingMarker = Symbol('not')
  return Promise.race([
    promise.catch(() => undefined),
    new Promise((resolve) => setImmediate(resolve, pendingMarker)),
  ]).then((first) => first !== pendingMarker)
}

function metricValue(metrics: ReturnType<typeof createMetrics>, name: string): Promise<number | undefined> {
  return metrics.getSingleMetricAsString(name).then((text) => Number(/^\w+ (\d+)$/m.exec(text)?.[1] ?? Number.NaN))
}

test('an event is published at once, and its request settles with the acknowledgement of the log', async () => {
  const { log, call } = scriptedLog()
  const publisher = createPublisher(log, createMetrics())
  const published = publisher.publish([event('a'), event('b')])
  const first = await call(0)
  expect(first.lines).toStrictEqual(['a', 'b'])
  expect(first.timeoutMs).toBeGreaterThan(1_000)
  expect(first.timeoutMs).toBeLessThanOrEqual(2_000)
  expect(await isSettled(published)).toBe(false)
  first.acknowledge()
  await published
})

test('the times of publishes are told apart from 1 ms to the longest one', async () => {
  const metrics = createMetrics()
  const { seconds } = publishing.createPublishState(metrics)
  for (const time of [0.000_9, 0.002, 2.4]) seconds.observe(time)
  const { values } = await seconds.get()
  const upTo = (limit: number | string) => values.find(({ labels }) => labels.le === limit)?.value
  expect([0.001, 0.002_5, 1, acceptance.msMax / 1000, '+Inf'].map(upTo)).toStrictEqual([1, 2, 2, 3, 3])
})

test('requests that arrive together share one publish', async () => {
  const { log, calls, call } = scriptedLog()
  const publisher = createPublisher(log, createMetrics())
  const published = ['a', 'b', 'c'].map((line) => publisher.publish([event(line)]))
  const first = await call(0)
  expect(first.lines).toStrictEqual(['a', 'b', 'c'])
  first.acknowledge()
  await Promise.all(published)
  expect(calls).toHaveLength(1)
})

test('requests that arrive during a publish share another one a few milliseconds later, before the first has ended', async () => {
  const { log, calls, call } = scriptedLog()
  const publisher = createPublisher(log, createMetrics())
  const first = publisher.publish([event('a')])
  await call(0)
  const others = ['b', 'c', 'd'].map((line) => publisher.publish([event(line)]))
  const second = await call(1)
  expect(calls).toHaveLength(2)
  expect(second.lines).toStrictEqual(['b', 'c', 'd'])
  second.acknowledge()
  await Promise.all(others)
  expect(await isSettled(first)).toBe(false)
  ;(await call(0)).acknowledge()
  await first
})

test('requests that are pending at the end of a publish share the next one with requests that follow its responses', async () => {
  const { log, calls, call } = scriptedLog()
  const publisher = createPublisher(log, createMetrics())
  const first = publisher.publish([event('a')])
  const { acknowledge } = await call(0)
  const waiting = publisher.publish([event('b')])
  acknowledge()
  await first
  const next = publisher.publish([event('c')])
  const second = await call(1)
  expect(second.lines).toStrictEqual(['b', 'c'])
  second.acknowledge()
  await Promise.all([waiting, next])
  expect(calls).toHaveLength(2)
})

test('half a mebibyte of events is published without waiting for further requests', async () => {
  const { log, calls } = scriptedLog()
  const publisher = createPublisher(log, createMetrics())
  const published = ['a', 'x'.repeat(512 * 1024), 'b', 'x'.repeat(512 * 1024)].map((line) =>
    publisher.publish([event(line)]),
  )
  // Only microtasks have run since: no timer and no further turn of the event loop.
  for (let turn = 0; turn < 5; turn++) await Promise.resolve()
  expect(calls.map(({ lines }) => lines.length)).toStrictEqual([2, 2])
  for (const { acknowledge } of calls) acknowledge()
  await Promise.all(published)
})

test('with many partitions a publish collects more, so that blocks do not become small', async () => {
  const { log, calls, call } = scriptedLog(() => Promise.resolve(100))
  const publisher = createPublisher(log, createMetrics())
  const published = Array.from({ length: 9 }, () => publisher.publish([event('x'.repeat(512 * 1024))]))
  const first = await call(0)
  expect(first.lines).toHaveLength(8)
  first.acknowledge()
  ;(await call(1)).acknowledge()
  await Promise.all(published)
  expect(calls.map(({ lines }) => lines.length)).toStrictEqual([8, 1])
})

test('events without an id use another partition with each publish', async () => {
  const { log, calls, call } = scriptedLog()
  const publisher = createPublisher(log, createMetrics())
  for (let n = 0; n < 8; n++) {
    const published = publisher.publish([event('a'), event('b')])
    ;(await call(n)).acknowledge()
    await published
  }
  expect(calls.map(({ blocks }) => blocks.map(({ partition }) => partition))).toStrictEqual(
    [0, 1, 2, 3, 0, 1, 2, 3].map((partition) => [partition]),
  )
})

describe('a publish whose partitions become durable one after the other', () => {
  const error = unavailable('a partition lacks replicas')

  test('settles each request once all of its own events are durable', async () => {
    const { log, call } = scriptedLog()
    const publisher = createPublisher(log, createMetrics())
    const first = publisher.publish([event('a', 0)])
    const both = publisher.publish([event('b', 0), event('c', 1)])
    const last = publisher.publish([event('d', 2)])
    const { acknowledgePartitions, acknowledge } = await call(0)
    acknowledgePartitions([0])
    await first
    expect(await isSettled(both)).toBe(false)
    acknowledgePartitions([1])
    await both
    expect(await isSettled(last)).toBe(false)
    acknowledge()
    await last
  })

  test('rejects only the requests with events in the partitions that fail, and counts the others as published', async () => {
    const { log, call } = scriptedLog()
    const metrics = createMetrics()
    const publisher = createPublisher(log, metrics)
    const durable = publisher.publish([event('a', 0), event('b', 3)])
    const partly = publisher.publish([event('c', 0), event('d', 1)])
    const failed = publisher.publish([event('e', 1)])
    const { acknowledgePartitions, refuse } = await call(0)
    acknowledgePartitions([0, 3])
    await durable
    expect(await metricValue(metrics, 'sluice_gateway_unacknowledged_bytes')).toBe(6)
    refuse(error)
    await expect(partly).rejects.toBe(error)
    await expect(failed).rejects.toBe(error)
    expect(await metricValue(metrics, 'sluice_gateway_events_published_total')).toBe(2)
    expect(await metricValue(metrics, 'sluice_gateway_publish_failures_total')).toBe(1)
    // An acknowledgement that comes too late changes nothing.
    acknowledgePartitions([1])
    expect(await metricValue(metrics, 'sluice_gateway_events_published_total')).toBe(2)
    expect(await metricValue(metrics, 'sluice_gateway_unacknowledged_bytes')).toBe(0)
  })

  test('rejects a request that became durable too late', async () => {
    const { log, call } = scriptedLog()
    let latest = 1_000
    const publisher = createPublisher(log, createMetrics(), { latest: () => latest })
    const late = publisher.publish([event('a', 0)], 0)
    const other = publisher.publish([event('b', 1)], 1_000)
    const { acknowledgePartitions, acknowledge } = await call(0)
    latest = 2_501
    acknowledgePartitions([0])
    await expect(late).rejects.toMatchObject({ code: 'unavailable', retryable: true })
    acknowledge()
    await other
  })
})

describe('a publish that fails', () => {
  test('rejects exactly the requests that it carried', async () => {
    const { log, call } = scriptedLog()
    const publisher = createPublisher(log, createMetrics())
    const error = unavailable('the log is full')
    const first = publisher.publish([event('a')])
    await call(0)
    const others = ['b', 'c'].map((line) => publisher.publish([event(line)]))
    ;(await call(1)).refuse(error)
    for (const other of others) await expect(other).rejects.toBe(error)
    expect(await isSettled(first)).toBe(false)
    ;(await call(0)).acknowledge()
    await first
    const next = publisher.publish([event('d')])
    ;(await call(2)).acknowledge()
    await next
  })

  test('does not affect the requests that are pending meanwhile', async () => {
    const { log, call } = scriptedLog()
    const publisher = createPublisher(log, createMetrics())
    const first = publisher.publish([event('a')])
    const { refuse } = await call(0)
    const waiting = publisher.publish([event('b')])
    refuse(unavailable('the log is full'))
    await expect(first).rejects.toThrow()
    const second = await call(1)
    expect(second.lines).toStrictEqual(['b'])
    second.acknowledge()
    await waiting
  })

  test('because the number of partitions is unknown rejects its requests', async () => {
    const error = unavailable('no metadata')
    let isAway = true
    const { log, call } = scriptedLog(() => (isAway ? Promise.reject(error) : Promise.resolve(4)))
    const publisher = createPublisher(log, createMetrics())
    await expect(publisher.publish([event('a')])).rejects.toBe(error)
    isAway = false
    const next = publisher.publish([event('b')])
    ;(await call(0)).acknowledge()
    await next
  })

  test('is counted, and so are the events of successful publishes', async () => {
    const { log, call } = scriptedLog()
    const metrics = createMetrics()
    const publisher = createPublisher(log, metrics)
    const bad = publisher.publish([event('a'), event('b')])
    ;(await call(0)).refuse(unavailable('x'))
    await expect(bad).rejects.toThrow()
    const good = publisher.publish([event('c'), event('d'), event('e')])
    ;(await call(1)).acknowledge()
    await good
    expect(await metricValue(metrics, 'sluice_gateway_publish_failures_total')).toBe(1)
    expect(await metricValue(metrics, 'sluice_gateway_events_published_total')).toBe(3)
  })
})

test('a log that never reports its partitions causes a 503 within 2.5 s, and the next event requests them again', async () => {
  const answers = [new Promise<number>(() => undefined), Promise.resolve(4)]
  const { log, call } = scriptedLog(() => answers.shift() ?? Promise.reject(new Error('asked once too often')))
  const publisher = createPublisher(log, createMetrics())
  const elapsedMs = startStopwatch()
  await expect(publisher.publish([event('a')])).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 })
  expect(elapsedMs()).toBeLessThan(2_500)
  const published = publisher.publish([event('b')])
  const first = await call(0)
  first.acknowledge()
  await published
})

test('each request that may have been acknowledged more than 2.5 s after its receipt is rejected with 503', async () => {
  const { log, call } = scriptedLog()
  let latest = 1_000
  const publisher = createPublisher(log, createMetrics(), { latest: () => latest })
  const late = publisher.publish([event('a')], 0)
  const timely = publisher.publish([event('b')], 1)
  const { acknowledge, lines } = await call(0)
  expect(lines).toStrictEqual(['a', 'b'])
  latest = 2_501
  acknowledge()
  await expect(late).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  await timely
})

test('a request that is too late already, as all are before the clock was compared, is not published', async () => {
  const { log, calls, call } = scriptedLog()
  const late = createPublisher(log, createMetrics()).publish([event('late')], Date.now() - 2_501)
  await expect(late).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  const early = createPublisher(log, createMetrics(), synchronizedClock()).publish([event('early')])
  await expect(early).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  const published = createPublisher(log, createMetrics()).publish([event('a')])
  const { acknowledge, lines } = await call(0)
  acknowledge()
  await published
  expect(lines).toStrictEqual(['a'])
  expect(calls).toHaveLength(1)
})

describe('64 MiB of unacknowledged bytes', () => {
  const large = event('x'.repeat(8 * mebibyte - 1))

  /** Receipts that never grow too old: encoding 64 MiB may take seconds on a busy machine. */
  const neverLate = Number.POSITIVE_INFINITY

  function fill(publisher: Publisher): Promise<void>[] {
    return Array.from({ length: 8 }, () => publisher.publish([large], neverLate))
  }

  test('are the limit beyond which requests get 503 at once', async () => {
    const { log, call, calls } = scriptedLog()
    const metrics = createMetrics()
    const publisher = createPublisher(log, metrics)
    const held = fill(publisher)
    const refused = publisher.publish([event('')], neverLate)
    await expect(refused).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 })
    expect(await metricValue(metrics, 'sluice_gateway_unacknowledged_bytes')).toBe(64 * mebibyte)

    // Further requests are accepted once some bytes are acknowledged.
    ;(await call(0)).acknowledge()
    await held[0]
    const small = publisher.publish([event('small')], neverLate)
    await call(8)
    for (const { acknowledge } of calls) acknowledge()
    await Promise.all([...held, small])
    expect(await metricValue(metrics, 'sluice_gateway_unacknowledged_bytes')).toBe(0)
  })

  test('no longer count after the log has rejected them', async () => {
    const { log, calls, call } = scriptedLog()
    const publisher = createPublisher(log, createMetrics())
    const held = fill(publisher)
    await call(7)
    for (const { refuse } of calls) refuse(unavailable('x'))
    for (const each of held) await expect(each).rejects.toThrow()
    const again = fill(publisher)
    await call(15)
    for (const { acknowledge } of calls.slice(8)) acknowledge()
    await Promise.all(again)
  })
})
