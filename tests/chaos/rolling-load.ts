import { Agent } from 'node:http'
import { askQuestions } from './ask-questions.ts'
import { exportContinuously, sendExportedEvents } from './continuous-exports.ts'
import { type Probe, probeFreshness } from './freshness.ts'
import type { RollingRig } from './rolling-rig.ts'
import { type Ledger, sendAll } from './sender.ts'

/** Sends events, queries and exports through HAProxy until it is stopped. */
export interface RollingLoad {
  /** Whether an export is queued or being written. */
  isExporting(): boolean
  /** Throws when an event was refused with a 4xx; nothing is sent after that. */
  throwIfFailed(): void
  /** Waits for the answers to all requests, and for the last exports and probes. */
  stop(): Promise<LoadResult>
}

export interface LoadResult {
  /** The events sent with keep-alive, and those sent on a new connection for each request. */
  ledgers: readonly Ledger[]
  /** Number of answered queries. */
  answered: number
  /** Number of completed exports. */
  completed: number
  probes: readonly Probe[]
}

/** A request without an answer after this time has failed; gateways answer within 2.5 s, query services within 31 s. */
const requestTimeoutMs = 40_000
/** The rate of each of the two senders, in requests with one or five events. */
const eventsPerSecond = 150
const batchEvents = 5

/**
 * Starts the load. `onFailure` is called for each failed request, except those of the ledgers, which record every
 * attempt.
 */
export async function startLoad(
  { key, balancer, clickHouse }: RollingRig,
  { seed, onFailure }: { seed: number; onFailure: (what: string) => void },
): Promise<RollingLoad> {
  const { collectUrl: gatewayUrl, queryUrl } = balancer
  const agent = new Agent({ keepAlive: true, scheduling: 'fifo' })
  const client = { gatewayUrl, queryUrl, key, agent, timeoutMs: requestTimeoutMs, onFailure }
  await sendExportedEvents(client)

  const failed = new AbortController()
  let isOver = false
  const sending = Promise.all(
    [false, true].map((isFresh, index) =>
      sendAll({
        urls: [gatewayUrl],
        key,
        seed: seed * 2 + index,
        events: Infinity,
        isOver: () => isOver,
        isFresh,
        batchEvents,
        concurrency: 4,
        eventsPerSecond,
        resendShare: 0.05,
        requestTimeoutMs,
        retryPauseMs: 100,
        patienceMs: 120_000,
        signal: failed.signal,
      }),
    ),
  )
  // `stop` awaits it; until then a rejection must not end this process.
  sending.catch((error: unknown) => failed.abort(error))
  const freshness = probeFreshness({ ...client, clickHouseUrl: clickHouse.url })
  const questions = askQuestions(client)
  const exports = exportContinuously(client)
  return {
    isExporting: () => exports.isUnderWay(),
    throwIfFailed: () => failed.signal.throwIfAborted(),
    stop: async () => {
      isOver = true
      const ends = [sending, questions.stop(), exports.stop(), freshness.stop()] as const
      await Promise.allSettled(ends)
      agent.destroy()
      const [ledgers, answered, completed, probes] = await Promise.all(ends)
      return { ledgers, answered, completed, probes }
    },
  }
}
