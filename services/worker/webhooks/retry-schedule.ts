import { hourMs, minuteMs, secondMs } from '@sluice/contracts/time-units'
import type { Channel } from '@sluice/contracts/webhooks'
import type { AttemptResult } from '@sluice/outbound/outbound'
import type { AttemptOutcome, EndpointHealth } from '@sluice/postgres/record-attempt'

/** Delay before each attempt of a delivery, in ms from the end of the previous attempt. */
export const retryDelaysMs = [
  0,
  5 * secondMs,
  minuteMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
  24 * hourMs,
] as const

/** Each delay varies by up to this share, so that deliveries that failed together are not retried together. */
const jitter = 0.2
/** `Retry-After` is obeyed up to this many times the delay. */
const retryAfterFactorMax = 2
/**
 * The endpoint of a webhook is disabled when no attempt has succeeded for this long while this many deliveries ran
 * out of attempts.
 */
const disabledAfterMs = 120 * hourMs
const disabledAfterExhausted = 2

/** An attempt with the state of its delivery and its endpoint. */
export interface AttemptFacts {
  /** 1 for the first since the schedule began. */
  attempt: number
  channel: Channel
  result: Pick<AttemptResult, 'succeeded' | 'status' | 'retryAfterMs'>
  health: EndpointHealth
  /** When the attempt began, and ended, Unix ms. */
  startedAt: number
  now: number
  /** From 0 to 1, which decides the jitter. */
  random: number
}

/** Decides what becomes of a delivery and of its endpoint after an attempt. */
export function decideAfterAttempt(facts: AttemptFacts): AttemptOutcome {
  const { attempt, result, health, startedAt, now } = facts
  if (result.succeeded) {
    return { status: 'succeeded', dueAt: null, health: { failingSince: null, failuresInRow: 0, exhausted: 0 } }
  }
  const isLast = attempt >= retryDelaysMs.length
  const after = {
    failingSince: health.failingSince ?? startedAt,
    failuresInRow: health.failuresInRow + 1,
    exhausted: health.exhausted + (isLast ? 1 : 0),
  }
  const disabledReason = reasonToDisable(facts, after)
  const willRetry = health.isEnabled && !isLast && disabledReason === undefined
  return {
    status: willRetry ? 'pending' : 'failed',
    dueAt: willRetry ? now + delayMs(facts) : null,
    health: after,
    ...(disabledReason === undefined ? {} : { disabledReason }),
  }
}

function delayMs({ attempt, result: { retryAfterMs }, random }: AttemptFacts): number {
  const delay = retryDelaysMs[attempt] ?? 0
  const drawn = delay * (1 - jitter + 2 * jitter * random)
  return Math.round(Math.max(drawn, Math.min(retryAfterMs ?? 0, retryAfterFactorMax * delay)))
}

function reasonToDisable(
  { channel, result: { status }, health, now }: AttemptFacts,
  { failingSince, exhausted }: { failingSince: number; exhausted: number },
): string | undefined {
  if (!health.canBeDisabled || !health.isEnabled) return undefined
  if (status === 410 && channel !== 'email')
    return 'The receiver answered with status 410: it wants no more deliveries.'
  if (exhausted < disabledAfterExhausted || now - failingSince < disabledAfterMs) return undefined
  return `No attempt has succeeded since ${new Date(failingSince).toISOString()}, and ${exhausted} deliveries ran out of attempts.`
}
