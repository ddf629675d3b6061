import { dayMs } from '@sluice/contracts/time-units'
import type { QueryReader } from '@sluice/event-store/clickhouse/query-runner'
import { countCopies } from '@sluice/event-store/events/count-copies'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { CanaryStore, WatchedCanaryEvent } from '@sluice/postgres/canary'
import type { Clock } from '@sluice/runtime/clock'
import { internalMessage } from '@sluice/runtime/errors'
import { logThrottle } from '@sluice/runtime/log-throttle'
import type { Logger } from '@sluice/runtime/logger'
import type { Sender } from './gateway-sender.ts'
import type { CanaryMetrics } from './metrics.ts'

export interface CanaryOptions {
  /** The site of the events; it contains no other events. */
  siteId: string
  sender: Sender
  /** Time after its acknowledgement at which an event counts as lost, in ms; a minute by default. */
  deadlineMs?: number
}

export interface CanaryUnitDeps extends CanaryOptions {
  store: Omit<CanaryStore, 'leases'>
  reader: QueryReader
  metrics: CanaryMetrics
  clock: Clock
  logger: Logger
  /** Aborts when the process begins to stop. */
  stopping: AbortSignal
}

/** Interval between events. The interval determines id and timestamp, so that a repeated unit sends the same event. */
const intervalMs = 10_000
/** Time from the begin of an interval until which a unit polls; the unit of the next interval continues. */
const pollingMs = 8_000
/** Pause between two polls, which limits the precision of `sluice_canary_found_seconds`. */
const pollPauseMs = 500
const defaultDeadlineMs = 60_000
/** How long polls look for an event that was not found: a writer may store it after a long outage. */
const watchedMs = dayMs
const watchedMax = 2 * (watchedMs / intervalMs)
/** Interval at which a lasting failure is logged again. */
const logIntervalMs = 600_000
const idPrefix = 'canary-'

/**
 * Sends the event of this interval, and polls ClickHouse every half second for the acknowledged events until all are
 * found or the interval is nearly over. An event counts as lost when a poll after its deadline does not find it. While
 * ClickHouse does not answer, no event counts as lost.
 */
export function canaryUnit(deps: CanaryUnitDeps): (job: unknown, lease: Lease) => Promise<UnitResult> {
  const { siteId, sender, deadlineMs = defaultDeadlineMs, store, reader, metrics, clock, logger, stopping } = deps
  const isLogDue = logThrottle(logIntervalMs)

  async function send(timestamp: number, signal: AbortSignal): Promise<void> {
    const event = { site_id: siteId, event_type: 'canary', event_id: `${idPrefix}${timestamp}`, timestamp }
    metrics.count('sent')
    const { isAcknowledged, status, error } = await sender(event, signal)
    if (isAcknowledged) {
      metrics.count('acknowledged')
      await store.add({ siteId, eventId: event.event_id, timestamp, acknowledgedAt: clock.now() })
    } else if (isLogDue(`${status} ${error}`)) {
      const remedy = status === 401 || status === 403 ? ': check SLUICE_CANARY_API_KEY and the site of its key' : ''
      logger.warn({ status, error, site: siteId }, `canary event not accepted${remedy}`)
    }
  }

  /** Returns whether no event is left that may still be found within its deadline. */
  async function poll(signal: AbortSignal): Promise<boolean> {
    const watched = await store.list(siteId)
    if (watched.length === 0) return true
    const polledAt = clock.now()
    const copies = await copiesOf(watched, signal)
    for (const event of watched) await update(event, copies.get(event.eventId) ?? 0, polledAt)
    await store.remove({ acknowledgedBefore: polledAt - deadlineMs, givenUpBefore: polledAt - watchedMs })
    return watched.every(({ eventId, isFound, isLost }) => isFound || isLost || copies.has(eventId))
  }

  async function copiesOf(watched: readonly WatchedCanaryEvent[], signal: AbortSignal) {
    const times = watched.map(({ timestamp }) => timestamp)
    const range = { start: Math.min(...times), end: Math.max(...times) }
    const runner = reader.runnerFor({ key: 'canary', signal, priority: 'interactive' })
    try {
      return await countCopies({ siteId, ...range, idPrefix, limit: watchedMax }, runner)
    } catch (error) {
      throw new PollFailedError(error)
    }
  }

  /** Stores, counts and logs what the poll has found. */
  async function update(event: WatchedCanaryEvent, copies: number, polledAt: number): Promise<void> {
    const { eventId, acknowledgedAt, isFound, isLost, isDoubled } = event
    const seconds = (polledAt - acknowledgedAt) / 1000
    const fields = { site: siteId, event_id: eventId, seconds: Math.round(seconds) }
    if (copies > 0 && !isFound && (await store.mark(event, 'found', polledAt))) {
      metrics.count('found')
      metrics.foundSeconds.observe(Math.max(0, seconds))
      if (isLost) {
        metrics.count('recovered')
        logger.warn(fields, 'canary event stored late')
      }
    }
    if (copies > 1 && !isDoubled && (await store.mark(event, 'doubled', polledAt))) {
      metrics.count('doubled')
      logger.error({ ...fields, copies }, 'canary event stored more than once')
    }
    const isOverdue = copies === 0 && !isFound && !isLost && polledAt - acknowledgedAt >= deadlineMs
    if (isOverdue && (await store.mark(event, 'lost', polledAt))) {
      metrics.count('lost')
      logger.error(fields, 'acknowledged canary event not stored')
    }
  }

  /** Polls until no event is left or `end` is reached; returns why the last poll failed. */
  async function pollUntil(end: number, signal: AbortSignal): Promise<string | undefined> {
    for (;;) {
      let failure: string | undefined
      try {
        if (await poll(signal)) return undefined
      } catch (error) {
        if (!(error instanceof PollFailedError)) throw error
        failure = error.message
      }
      if (clock.now() + pollPauseMs > end) return failure
      await clock.sleep(pollPauseMs, signal)
      signal.throwIfAborted()
    }
  }

  return async (_, lease) => {
    const begin = Math.floor(clock.now() / intervalMs) * intervalMs
    const next = begin + intervalMs
    try {
      const signal = AbortSignal.any([lease.signal, stopping])
      await send(begin, signal)
      const failure = await pollUntil(begin + pollingMs, signal)
      if (failure === undefined) return { next }
      if (isLogDue('poll')) logger.warn({ error: failure }, 'ClickHouse query for canary events failed')
      return { next, log: { poll: failure } }
    } catch (error) {
      if (lease.signal.aborted || !stopping.aborted) throw error
      // The worker stops; the next unit continues on another worker.
      return { next }
    }
  }
}

/** ClickHouse has not answered, so it is unknown whether the events are stored. */
class PollFailedError extends Error {
  override readonly name = 'PollFailedError'

  constructor(cause: unknown) {
    super(internalMessage(cause), { cause })
  }
}
