import { unavailable } from './errors.ts'
import { sum } from './sum.ts'

/**
 * Limits how many calls run at once, by key and altogether, and shares the slots fairly between the keys: a free slot
 * goes to the key with the fewest running calls, and among equals to the one that started a call longest ago.
 */
export interface FairQueue {
  /**
   * Runs `call` when a slot is free for `key` and settles as it does. `slot` is the lowest number from 1 on that no
   * running call of the key uses; the caller may prefer low numbers. Throws AppError `unavailable` when too many calls
   * of the key are queued, when the call was queued for too long, and when `signal` aborts while it is queued.
   */
  run<T>(key: string, signal: AbortSignal | undefined, call: (slot: number) => Promise<T>): Promise<T>
  /** How many calls of all keys run, and how many are queued. */
  counts(): { running: number; waiting: number }
}

/** The limits of a queue: numbers of calls, and a time in ms. */
export interface FairQueueLimits {
  /** Calls that run at once. */
  concurrencyMax: number
  /** Calls of one key that run at once. */
  concurrencyPerKeyMax: number
  /** Calls of one key that are queued; a further one fails at once. */
  queuedPerKeyMax: number
  /** A call that is queued for longer fails. */
  queueTimeoutMs: number
}

interface KeyQueue {
  /** The slots of the running calls. */
  running: Set<number>
  /** Number of the call that was started last, counted over all keys; 0 before the first. */
  lastStartNumber: number
  /** Starters of the queued calls, which take the slot of the call, in the order of their arrival. */
  queued: Set<(slot: number) => void>
}

/** `onTimeout` is called for each call that was queued for too long. */
export function createFairQueue(limits: FairQueueLimits, onTimeout: () => void = () => undefined): FairQueue {
  /** Keys with running or queued calls. */
  const queues = new Map<string, KeyQueue>()
  let running = 0
  let lastStart = 0

  /** Takes a slot; returns its number. */
  function begin(queue: KeyQueue): number {
    let slot = 1
    while (queue.running.has(slot)) slot++
    queue.running.add(slot)
    running++
    queue.lastStartNumber = ++lastStart
    return slot
  }

  function end(key: string, queue: KeyQueue, slot: number): void {
    queue.running.delete(slot)
    running--
    dispatchNext()
    deleteIfIdle(key, queue)
  }

  function deleteIfIdle(key: string, { running: queueRunning, queued }: KeyQueue): void {
    if (queueRunning.size === 0 && queued.size === 0) queues.delete(key)
  }

  /** Starts queued calls until the slots are taken or no key may start another one. */
  function dispatchNext(): void {
    while (running < limits.concurrencyMax) {
      let first: KeyQueue | undefined
      for (const queue of queues.values()) {
        if (queue.queued.size === 0 || queue.running.size >= limits.concurrencyPerKeyMax) continue
        if (first === undefined || hasPrecedence(queue, first)) first = queue
      }
      const [next] = first?.queued ?? []
      if (first === undefined || next === undefined) return
      first.queued.delete(next)
      next(begin(first))
    }
  }

  /** Queues a call; resolves with its slot. */
  function wait(key: string, queue: KeyQueue, signal: AbortSignal | undefined): Promise<number> {
    return new Promise((resolve, reject) => {
      const cleanUp = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
      }
      const start = (slot: number): void => {
        cleanUp()
        resolve(slot)
      }
      const rejectCall = (reason: string): void => {
        cleanUp()
        queue.queued.delete(start)
        deleteIfIdle(key, queue)
        reject(unavailable(reason))
      }
      const onAbort = (): void => rejectCall('the client left before its call began')
      const timer = setTimeout(() => {
        onTimeout()
        rejectCall('the call waited too long for its turn')
      }, limits.queueTimeoutMs)
      signal?.addEventListener('abort', onAbort)
      queue.queued.add(start)
    })
  }

  return {
    run: async (key, signal, call) => {
      // A key that was idle precedes only the key that started the last call. With 0 it would precede all keys, and
      // keys that are idle in between would overtake the others again and again.
      const queue = queues.get(key) ?? newKeyQueue(lastStart - 0.5)
      if (signal?.aborted) throw unavailable('the client left before its call began')
      const isFree =
        running < limits.concurrencyMax && queue.running.size < limits.concurrencyPerKeyMax && queue.queued.size === 0
      if (queue.queued.size >= limits.queuedPerKeyMax) throw unavailable('too many calls of the key wait')
      queues.set(key, queue)
      const slot = isFree ? begin(queue) : await wait(key, queue, signal)
      try {
        return await call(slot)
      } finally {
        end(key, queue, slot)
      }
    },
    counts: () => ({ running, waiting: sum([...queues.values()].map(({ queued }) => queued.size)) }),
  }
}

function newKeyQueue(lastStartNumber: number): KeyQueue {
  return { running: new Set(), lastStartNumber, queued: new Set() }
}

function hasPrecedence(one: KeyQueue, other: KeyQueue): boolean {
  const more = one.running.size - other.running.size
  return more === 0 ? one.lastStartNumber < other.lastStartNumber : more < 0
}
