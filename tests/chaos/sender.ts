import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { drawEvent } from './events.ts'
import { drawBelow, seededRandom } from './random.ts'
import { sendRequest } from './send-request.ts'

export interface SenderOptions {
  /** Requests go to these in turn. */
  urls: readonly string[]
  key: string
  seed: number
  /** Infinity: until `isOver`. */
  events: number
  /** Whether no further request is sent. */
  isOver?: () => boolean
  /** Whether each request has a connection of its own; connections are kept otherwise. */
  isFresh?: boolean
  /** Events of a batch; every tenth request is a single event to /collect. */
  batchEvents: number
  /** Requests that run at a time. */
  concurrency: number
  /** Events sent per second; Infinity: as fast as they are accepted. */
  eventsPerSecond: number
  /** Share of the acknowledged requests that are sent again later, with the same ids. */
  resendShare: number
  /** A client without a response after this time disconnects and repeats the request. */
  requestTimeoutMs: number
  /** Pause after a refusal or a broken connection. */
  retryPauseMs: number
  /** Resolves when event number `n` may be sent. */
  mayBegin?: (n: number) => Promise<void>
  /** Called with the number of acknowledged events. */
  onProgress?: (acknowledged: number) => void
  /** The sender rejects when a request got no 202 for this time. */
  patienceMs: number
  /** The sender rejects when this aborts. */
  signal: AbortSignal
}

/** One attempt at one request, kept to explain a lost event. */
export interface Attempt {
  /** Unix ms. */
  at: number
  ms: number
  /** The status, or the reason why there was no response. */
  outcome: number | string
}

export interface SentRequest {
  from: number
  to: number
  attempts: Attempt[]
}

/** The sender's list: every event in it was answered 202 at least once. */
export interface Ledger {
  seed: number
  events: number
  /** Unix ms. */
  beganAt: number
  endedAt: number
  requests: SentRequest[]
  figures: SenderFigures
}

export interface SenderFigures {
  seconds: number
  requests: number
  resent: number
  /** Attempts without a response: cut, refused, timed out. */
  unanswered: number
  /** Attempts by status. */
  statuses: Record<string, number>
  p50_ms: number
  p99_ms: number
  /** The longest time until a response other than 202. */
  slowest_refusal_ms: number
  refusals_without_retry_after: number
  longest_without_202_ms: number
}

/**
 * A request is sent again after this many others, so that its first copy has most likely been stored in an earlier
 * batch.
 */
const resendAfterRequests = 50

/**
 * Sends events as a careful producer does: a request without a 202 is repeated with the same `event_id`s until it is
 * acknowledged. Some acknowledged requests are sent again on purpose. Rejects on a response that a good request must
 * not get.
 */
export async function sendAll(options: SenderOptions): Promise<Ledger> {
  const { urls, key, seed, requestTimeoutMs, isOver = () => false } = options
  const drawn = drawRequests(options)
  const requests: SentRequest[] = []
  const agent = new Agent(options.isFresh === true ? { keepAlive: false } : { keepAlive: true, scheduling: 'fifo' })
  const resendDraw = seededRandom(seed, -2)
  const counts = { resent: 0, unanswered: 0, withoutRetryAfter: 0, slowestRefusalMs: 0, longestGapMs: 0 }
  const statuses: Record<string, number> = {}
  const latencies: number[] = []
  const beganAt = Date.now()
  let acknowledged = 0
  let waiting = 0
  /** The time from which a 202 is due: that of the last 202, or of the first request after a pause of the sender. */
  let dueSince = beganAt
  let turn = 0

  async function attempt({ from, to, attempts }: SentRequest, body: string): Promise<boolean> {
    const url = `${urls[turn++ % urls.length] ?? ''}${to - from === 1 ? '/collect' : '/collect/batch'}`
    const at = Date.now()
    const outcome = await post(url, body, { key, agent, timeoutMs: requestTimeoutMs })
    const ms = Date.now() - at
    attempts.push({ at, ms, outcome: outcome.status ?? outcome.failure })
    if (outcome.status === undefined) {
      counts.unanswered++
      return false
    }
    statuses[outcome.status] = (statuses[outcome.status] ?? 0) + 1
    if (outcome.status === 202) {
      if (to - from > 1 && outcome.accepted !== to - from)
        throw new Error(`of ${to - from} good events ${outcome.accepted ?? 'none'} were accepted: ${outcome.text}`)
      latencies.push(ms)
      return true
    }
    if (outcome.status < 500 && outcome.status !== 429) throw new Error(`a good request was refused: ${outcome.text}`)
    counts.slowestRefusalMs = Math.max(counts.slowestRefusalMs, ms)
    if (outcome.retryAfter === null) counts.withoutRetryAfter++
    return false
  }

  async function sendUntilAcknowledged(request: SentRequest): Promise<void> {
    const startedAt = Date.now()
    if (waiting++ === 0) dueSince = startedAt
    // Prepared once for all attempts: this process also runs the proxies, and its own work is part of the times that it
    // measures.
    const body = bodyOf(seed, request)
    while (!(await attempt(request, body))) {
      if (Date.now() - startedAt > options.patienceMs)
        throw new Error(`no 202 within ${options.patienceMs} ms, last: ${request.attempts.at(-1)?.outcome ?? ''}`)
      options.signal.throwIfAborted()
      await pause(options.retryPauseMs)
    }
    waiting--
    const now = Date.now()
    counts.longestGapMs = Math.max(counts.longestGapMs, now - dueSince)
    dueSince = now
  }

  async function work(): Promise<void> {
    while (!isOver()) {
      const { value: request } = drawn.next()
      if (request === undefined) return
      const index = requests.push(request) - 1
      await options.mayBegin?.(request.to)
      const dueInMs = beganAt + (request.from / options.eventsPerSecond) * 1000 - Date.now()
      // After an outage the sender is late and sends without pauses, which also tests the services under load.
      if (dueInMs > 0) await pause(dueInMs)
      await sendUntilAcknowledged(request)
      acknowledged += request.to - request.from
      options.onProgress?.(acknowledged)
      const earlier = requests[index - resendAfterRequests]
      if (earlier?.attempts.at(-1)?.outcome === 202 && resendDraw() < options.resendShare) {
        await sendUntilAcknowledged(earlier)
        counts.resent++
      }
    }
  }

  await Promise.all(Array.from({ length: options.concurrency }, work)).finally(() => agent.destroy())
  const endedAt = Date.now()
  latencies.sort((a, b) => a - b)
  const quantile = (share: number): number => latencies[Math.floor(latencies.length * share)] ?? 0
  return {
    seed,
    events: requests.at(-1)?.to ?? 0,
    beganAt,
    endedAt,
    requests,
    figures: {
      seconds: (endedAt - beganAt) / 1000,
      requests: requests.length,
      resent: counts.resent,
      unanswered: counts.unanswered,
      statuses,
      p50_ms: quantile(0.5),
      p99_ms: quantile(0.99),
      slowest_refusal_ms: counts.slowestRefusalMs,
      refusals_without_retry_after: counts.withoutRetryAfter,
      longest_without_202_ms: counts.longestGapMs,
    },
  }
}

/** Divides the events, in order, among requests. */
function* drawRequests({ seed, events, batchEvents }: SenderOptions): Generator<SentRequest, undefined> {
  const random = seededRandom(seed, -1)
  for (let from = 0; from < events;) {
    const to = Math.min(events, from + (drawBelow(random, 10) === 0 ? 1 : batchEvents))
    yield { from, to, attempts: [] }
    from = to
  }
}

type Outcome =
  | { status: number; accepted: number | undefined; retryAfter: string | null; text: string }
  | { status?: undefined; failure: string }

/** The JSON of the events of a request: of one event, or of a batch. */
function bodyOf(seed: number, { from, to }: SentRequest): string {
  const events = Array.from({ length: to - from }, (_, index) => drawEvent(seed, from + index).sent)
  return JSON.stringify(events.length === 1 ? events[0] : { events })
}

async function post(
  url: string,
  body: string,
  { key, agent, timeoutMs }: { key: string; agent: Agent; timeoutMs: number },
): Promise<Outcome> {
  try {
    const { status, retryAfter, text } = await sendRequest(url, { key, body, agent, timeoutMs })
    const { data } = JSON.parse(text) as { data?: { accepted?: number } }
    return { status, accepted: data?.accepted, retryAfter, text }
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error) }
  }
}
