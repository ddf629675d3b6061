import { type Audit, audit } from './audit.ts'
import { copyAcrossLanes } from './copy-across-lanes.ts'
import { waitForBothWriters, waitForDrain } from './drain.ts'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { shareUntil } from './schedule.ts'
import { type Ledger, sendAll, type SenderOptions } from './sender.ts'

/** A fault that happens while events are sent. */
export interface TimedFault {
  name: string
  /** The share of acknowledged events at which the fault begins. */
  at: number
  /** Causes the fault; resolves when it is over. */
  run: () => Promise<void>
}

export interface LoadOptions {
  load: Pick<SenderOptions, 'seed' | 'events' | 'eventsPerSecond'> & Partial<SenderOptions>
  faults: readonly TimedFault[]
  /** Whether the blocks of each lane are copied to the other one meanwhile. */
  copies?: boolean
  say: Say
}

/**
 * A batch may wait for a group that lost its last member: 10 s for the session, and 15 s for the rebalance. While live
 * events arrive, the writer spends only a quarter of its time on old events. On a busy machine, where each statement
 * takes seconds, storing them takes many minutes.
 */
const drainTimeoutMs = 600_000

/**
 * Sends events while faults happen, one after the other, then compares the store with the sender's list. Events that
 * were answered 202 must be stored once and unaltered, and a good request may only be answered 202 or 503.
 */
export async function underLoad(
  rig: Rig,
  { load, faults, copies = false, say }: LoadOptions,
): Promise<Outcome & { ledger: Ledger }> {
  // When one of the two fails, the other is aborted; it would wait for ever otherwise.
  const failed = new AbortController()
  const abortOnFailure = <T>(running: Promise<T>): Promise<T> =>
    running.catch((error: unknown) => {
      failed.abort(error)
      throw error
    })
  const copying = copies ? await copyAcrossLanes(rig) : undefined
  const synchronised = synchronise(faults, load.events, { say, signal: failed.signal })
  const sending = sendAll({
    urls: rig.proxies.clients.map(({ port }) => `http://127.0.0.1:${port}`),
    key: rig.key,
    batchEvents: 100,
    concurrency: 8,
    resendShare: 0.05,
    requestTimeoutMs: 3_000,
    retryPauseMs: 100,
    patienceMs: 120_000,
    mayBegin: synchronised.mayBegin,
    onProgress: synchronised.onProgress,
    signal: failed.signal,
    ...load,
  })
  const [ledger] = await Promise.all([abortOnFailure(sending), abortOnFailure(synchronised.run())]).finally(() =>
    copying?.stop(),
  )
  const endedAt = Date.now()
  await waitForDrain(rig, drainTimeoutMs)
  const drained_ms = Date.now() - endedAt
  say(`all are acknowledged and the log is drained after ${drained_ms} ms`)
  await waitForBothWriters(rig, drainTimeoutMs)

  // The result includes inserts that still run, for example of a writer that was frozen.
  await Promise.all(rig.writers.map((writer) => writer.stop()))
  const { differences, ...counts } = await audit(
    rig.clickHouse.servers.map(({ url }) => url),
    ledger,
  )
  await Promise.all(rig.writers.map((writer) => writer.start()))
  return {
    ledger,
    figures: { ...counts, ...ledger.figures, ...(copying && { copied_blocks: copying.count() }), drained_ms },
    problems: [...judgeCounts(counts), ...judgeStatuses(ledger.figures.statuses)],
    details: differences,
  }
}

interface Synchronised {
  /** Resolves when event number `n` may be sent: the faults before it are over. */
  mayBegin: (n: number) => Promise<void>
  onProgress: (acknowledged: number) => void
  /** Runs the faults; resolves when all are over, rejects when one could not be caused. */
  run: () => Promise<void>
}

/** Synchronises faults and events: a fault begins at its share of the events, and the next share waits for its end. */
function synchronise(
  faults: readonly TimedFault[],
  events: number,
  { say, signal }: { say: Say; signal: AbortSignal },
): Synchronised {
  let over = 0
  let acknowledged = 0
  let changed = Promise.withResolvers<undefined>()
  const notify = (): void => {
    changed.resolve(undefined)
    changed = Promise.withResolvers()
  }
  signal.addEventListener('abort', notify)
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) {
      signal.throwIfAborted()
      await changed.promise
    }
  }
  return {
    mayBegin: (n) => until(() => n <= shareUntil(over, faults.length) * events),
    onProgress: (now) => {
      acknowledged = now
      notify()
    },
    run: async () => {
      for (const { name, at, run } of faults) {
        await until(() => acknowledged >= at * events)
        const beganAt = Date.now()
        await run().catch((error: unknown) => {
          throw new Error(`${name}: ${String(error)}`, { cause: error })
        })
        say(`${name} (${Date.now() - beganAt} ms)`)
        over++
        notify()
      }
    },
  }
}

function judgeCounts({ lost, twice, altered, foreign, misplaced }: Omit<Audit, 'differences'>): string[] {
  return Object.entries({ lost, twice, altered, foreign, misplaced }).flatMap(([what, count]) =>
    count > 0 ? [`${count} ${what}`] : [],
  )
}

function judgeStatuses(statuses: Readonly<Record<string, number>>): string[] {
  return Object.entries(statuses).flatMap(([status, count]) =>
    status === '202' || status === '503' ? [] : [`${count} answers ${status}`],
  )
}
