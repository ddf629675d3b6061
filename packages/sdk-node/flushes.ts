import type { EventQueue } from './event-queue.ts'
import type { Sender } from './sender.ts'
import type { FlushResult } from './types.ts'

/** The running calls of `flush`. */
export interface Flushes {
  /** Waits until all events that are in the queue now are stored or refused, for `timeoutMs` at most. */
  start(timeoutMs: number): Promise<FlushResult>
  /** Counts an event that has left the queue. */
  settle(seq: number, isStored: boolean): void
  /** Resolves all calls, because nothing is sent any more. */
  endAll(): void
}

interface Flush extends FlushResult {
  /** `seq` of the first event that was tracked after the call. */
  end: number
  finish(): void
}

/** The calls of one client. Their timers keep the process running. */
export function flushes(queue: Pick<EventQueue, 'size' | 'nextSeq'>, sender: Pick<Sender, 'skipDelays'>): Flushes {
  const running = new Set<Flush>()
  return {
    start: (timeoutMs) =>
      new Promise((resolve) => {
        const restoreDelays = sender.skipDelays()
        const finish = (): void => {
          const { sent, pending, rejected } = flush
          running.delete(flush)
          clearTimeout(timer)
          restoreDelays()
          resolve({ sent, pending, rejected })
        }
        const flush: Flush = { sent: 0, pending: queue.size(), rejected: 0, end: queue.nextSeq(), finish }
        const timer = setTimeout(finish, timeoutMs)
        running.add(flush)
        if (flush.pending === 0) finish()
      }),
    settle: (seq, isStored) => {
      for (const flush of running) {
        if (seq >= flush.end) continue
        flush.pending--
        if (isStored) flush.sent++
        else flush.rejected++
        if (flush.pending === 0) flush.finish()
      }
    },
    endAll: () => {
      for (const flush of running) flush.finish()
    },
  }
}
