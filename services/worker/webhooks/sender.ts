import { randomInt } from 'node:crypto'
import { LeaseLostError, leaseWorkMsMax } from '@sluice/leases/lease-table'
import type { LeaseMetrics } from '@sluice/leases/metrics'
import { takeLoop } from '@sluice/leases/take-loop'
import type { AttemptResult } from '@sluice/outbound/outbound'
import type { DeliveryQueue, TakenDelivery } from '@sluice/postgres/delivery-queue'
import type { RecordedAttempt } from '@sluice/postgres/record-attempt'
import { type Clock, requireComparedClock } from '@sluice/runtime/clock'
import { internalMessage, isRetryable } from '@sluice/runtime/errors'
import { logThrottle } from '@sluice/runtime/log-throttle'
import type { Logger } from '@sluice/runtime/logger'
import type { Component } from '@sluice/runtime/supervisor'
import { attempt, type AttemptDeps } from './attempt.ts'
import type { DeliveryMetrics } from './metrics.ts'
import { decideAfterAttempt } from './retry-schedule.ts'

export interface SenderOptions extends AttemptDeps {
  queue: DeliveryQueue
  clock: Clock
  logger: Logger
  metrics: DeliveryMetrics
  leaseMetrics: Pick<LeaseMetrics, 'leasesLost'>
  /** Aborts when the process begins to stop. */
  stopping?: AbortSignal
  /** From 0 to 1; decides the jitter. */
  random?: () => number
}

/** The most attempts of this process at a time, and how many of these may be to failing endpoints. */
const attemptsMax = 256
const failingMax = attemptsMax / 2
/** One failed attempt of each channel is a warning this often. There may be thousands a minute; the others are info. */
const warningIntervalMs = 60_000
/** The pause between attempts to record while Postgres is unavailable. */
const retryMs = 1_000

/**
 * Sends the deliveries that are due: looks for them each second, and as soon as attempts have ended. Any number of
 * processes may do so. A stop takes no further delivery, waits 5 s for the attempts under way, aborts them and releases
 * their deliveries. It takes 7 s at most.
 */
export function deliverySender(options: SenderOptions): Component {
  const { queue, clock, logger, stopping } = options
  const underWay = new Set<TakenDelivery>()
  const isWarningDue = logThrottle(warningIntervalMs)
  let abort = new AbortController()

  async function send(taken: TakenDelivery, takenAt: number): Promise<void> {
    underWay.add(taken)
    await sendOne({ ...options, isWarningDue }, taken, takenAt, abort.signal)
    underWay.delete(taken)
  }

  async function take(signal: AbortSignal, follow: (work: Promise<void>) => void): Promise<void> {
    const failing = [...underWay].filter(({ isFailing }) => isFailing).length
    const max = attemptsMax - underWay.size
    if (max === 0) return
    requireComparedClock(clock)
    const takenAt = clock.now()
    const taken = await queue.take(takenAt, { max, failingMax: failingMax - failing }, [...underWay])
    if (signal.aborted) await Promise.all(taken.map((each) => queue.release(each)))
    else for (const each of taken) follow(send(each, takenAt))
  }

  return takeLoop({
    name: 'deliveries',
    clock,
    ...(stopping && { stopping }),
    take,
    abort: () => {
      abort.abort(new Error('the worker stops'))
      // After a failure the component runs again.
      abort = new AbortController()
    },
    warn: (fields) => logger.warn(fields, 'deliveries could not be taken, retrying'),
  })
}

/** One attempt and its record; never rejects. */
async function sendOne(
  options: SenderOptions & { isWarningDue: (channel: string) => boolean },
  taken: TakenDelivery,
  takenAt: number,
  stopped: AbortSignal,
): Promise<void> {
  const { clock, logger, metrics, leaseMetrics } = options
  const ended = new AbortController()
  const expired = new AbortController()
  void clock
    .sleep(leaseWorkMsMax - (clock.now() - takenAt), ended.signal)
    .then(() => expired.abort(new Error('the lease ends')))
  const startedAt = clock.now()
  const fields = {
    kind: 'deliveries',
    channel: taken.channel,
    delivery_id: taken.id,
    endpoint_id: taken.endpointId,
    site_id: taken.siteId,
  }
  try {
    const signal = AbortSignal.any([stopped, expired.signal])
    const result = await attempt(options, taken, startedAt, signal)
    // The delay is not measured for requested attempts and failing endpoints: there the limit of concurrent attempts
    // per endpoint causes the delay, not a lack of workers. An attempt that can't be made, because its URL can't be
    // decrypted, is repeated and stays the first one.
    if (taken.isFirst && !taken.isFailing) metrics.delaySeconds.observe(Math.max(0, startedAt - taken.dueAt) / 1_000)
    const { status, latencyMs, response, error, settledRecipients = [] } = result
    const recorded = {
      at: startedAt,
      status,
      latencyMs,
      response,
      error,
      settledRecipients: settledRecipients.map((address) => options.secrets.fingerprint(address)),
    }
    const { status: delivery, disabledReason } = await record(options, taken, { recorded, result, signal })
    const outcome = result.succeeded ? 'succeeded' : 'failed'
    metrics.attempts.inc({ channel: taken.channel, outcome })
    const level = outcome === 'failed' && options.isWarningDue(taken.channel) ? 'warn' : 'info'
    logger[level]({ ...fields, outcome, status, error, latency_ms: latencyMs, delivery }, 'delivery attempt')
    if (disabledReason !== undefined) logger.warn({ ...fields, reason: disabledReason }, 'endpoint disabled')
  } catch (error) {
    metrics.attempts.inc({ channel: taken.channel, outcome: 'lost' })
    if (error instanceof LeaseLostError || expired.signal.aborted) leaseMetrics.leasesLost.inc({ kind: 'deliveries' })
    if (stopped.aborted) await options.queue.release(taken).catch(() => undefined)
    logger.warn({ ...fields, outcome: 'lost', error: internalMessage(error) }, 'delivery attempt')
  } finally {
    ended.abort()
  }
}

function randomFraction(): number {
  return randomInt(1_000_001) / 1_000_000
}

/** Records an attempt, again and again while Postgres is unavailable and the lease lasts. */
async function record(
  { queue, clock, random = randomFraction }: SenderOptions,
  taken: TakenDelivery,
  { recorded, result, signal }: { recorded: RecordedAttempt; result: AttemptResult; signal: AbortSignal },
): ReturnType<DeliveryQueue['record']> {
  // Drawn once, however often the record is tried.
  const drawn = random()
  const now = clock.now()
  const facts = { channel: taken.channel, result, startedAt: recorded.at, now, random: drawn }
  for (;;) {
    try {
      return await queue.record(
        taken,
        recorded,
        (attempt, health) => decideAfterAttempt({ ...facts, attempt, health }),
        now,
      )
    } catch (error) {
      if (!isRetryable(error) || signal.aborted) throw error
      await clock.sleep(retryMs, signal)
    }
  }
}
