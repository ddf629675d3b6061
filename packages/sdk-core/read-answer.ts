import type { BatchResult, EventError } from '@sluice/contracts/batch-result'

/** A response of /collect or /collect/batch, or the part of it that arrived. */
export interface Answer {
  /** The HTTP status; 0 when no response came. */
  status: number
  headers?: Pick<Headers, 'get'>
  /** The JSON of the body; undefined when the body is not JSON. */
  body?: { timestamp?: number; error?: string; data?: Partial<BatchResult> }
}

/** An event that Sluice refused for good: its index in the request, and the error message. */
export type Refusal = readonly [index: number, error: string]

/**
 * The next step of an SDK for the events of a request:
 *
 * - `done`: all events but `refused` are stored. If `more` is set, the response listed only some of the refused events:
 *   all events that it did not list are sent again, which stores nothing twice.
 * - `repeat`: the same events are sent again, after `afterMs` or, if that is 0, after the next backoff.
 * - `split`: the events are sent again in two requests. (A single event in such a request is refused.)
 * - `stop`: the key may not send events. The events are kept until the application uses another key.
 */
export type NextStep =
  | { next: 'done'; refused: readonly Refusal[]; more: boolean }
  | { next: 'repeat' | 'stop'; afterMs: number; error: string }
  | { next: 'split' }

/**
 * Decides the next step after a response to a request with `count` events (docs/http-interface.md#batches). Only a 202
 * means that events are stored, and only an error for an event means that it is refused: in all other cases the events
 * are sent again. A response without the number `timestamp` of Sluice's envelope is a proxy's, or its body is lost: it
 * says nothing about the events or the key, unless it says that the body is too large.
 *
 * The events of an SDK all belong to one site, so the error of one event about the site holds for all: the events are
 * sent again, because the key may get rights to the site, and the site be registered. With `mayMixSites`, the error
 * holds for this event alone, which is refused.
 */
export function readAnswer({ status, headers, body }: Answer, count: number, mayMixSites?: boolean): NextStep {
  const { errors, rejected = 0 } = body?.data ?? {}
  let next: 'repeat' | 'stop' = 'repeat'
  let error = body?.error ?? (status ? `HTTP ${status}` : 'no response')
  if (status === 413 || Number(body?.timestamp)) {
    // The body may be of another service, with anything in it.
    const listed: readonly (EventError | null)[] = Array.isArray(errors) ? errors : []
    const refused = listed.map((each) => [each?.index, each?.error] as Refusal)
    // `Key is not allowed for this site`, `Site not found`, `Rate limit exceeded`: no other error of an event has these
    // initials, as a test with all its errors shows. A name for the expression would cost the browser SDK bytes.
    const siteError = refused.find(([, each]) => !mayMixSites && /^[KRS]/.test(each))
    if (siteError) [, error] = siteError
    else if (status === 401 || status === 403) next = 'stop'
    else if (status === 202 || (rejected && refused.length))
      return { next: 'done', refused, more: rejected > refused.length }
    else if (status === 400 || status === 413)
      return count > 1 ? { next: 'split' } : { next: 'done', refused: [[0, error]], more: false }
  }
  // A date, which Sluice never sends, counts as none.
  return { next, afterMs: msUntil(headers, 'retry-after'), error }
}

/** Milliseconds from `from` to the time of a header in seconds; 0 when it is past, absent or no number. */
function msUntil(headers: Answer['headers'], name: string, from = 0): number {
  return Math.max(0, Number(headers?.get(name)) * 1000 - from) || 0
}

/** How long to wait for the reset of the key's limit when it leaves fewer than `count` events, in ms; otherwise 0. */
export function limitPauseMs({ headers }: Pick<Answer, 'headers'>, count: number, now: number): number {
  if (Number(headers?.get('x-ratelimit-remaining') ?? count) >= count) return 0
  return msUntil(headers, 'x-ratelimit-reset', now)
}

/** Milliseconds to wait before retry `attempt` (from 0): a random time below 1 s, doubled up to 60 s (full jitter). */
export function backoffMs(attempt: number): number {
  // eslint-disable-next-line no-restricted-properties -- jitter is no secret, and browsers have no node:crypto
  return Math.random() * Math.min(60_000, 1000 * 2 ** attempt)
}

/**
 * Whether an event was refused because of the device's clock, so that it may be sent with a corrected timestamp. It
 * compares only the ends of the contracts' `timestampErrors`, to keep the browser SDK small.
 */
export function isClockError(error: string): boolean {
  return /timestamp .*(before 1971|the future)$/.test(error)
}
