import type { QueuedEvent } from './new-event.ts'
import type { SpoolFile } from './spool.ts'

/** Limits of one request; Sluice accepts up to 10 MiB. */
const request = { events: 2_000, bytes: 8 * 1024 * 1024 } as const

/** An event that Sluice has not answered for. */
export interface WaitingEvent {
  /** Its place in the order of `track`. */
  readonly seq: number
  event: QueuedEvent
  /** The spool file that contains it; undefined when it is only in memory. */
  file: SpoolFile | undefined
}

/** The events that wait or are in a running request, in the order of `track`. */
export interface EventQueue {
  /** Whether the limits allow another event of this size. */
  hasRoom(bytes: number): boolean
  /** Whether the events take more than half of the limits. */
  isHalfFull(): boolean
  /** Adds an event, whether there is room or not. */
  add(event: QueuedEvent, file: SpoolFile | undefined): WaitingEvent
  /** Takes the events of the next request; none when no event waits. */
  take(): readonly WaitingEvent[]
  /** Returns events of a request that failed: each group is sent again in a request. */
  requeue(...groups: readonly (readonly WaitingEvent[])[]): void
  /** Removes an event; false when it was removed before. */
  remove(waiting: WaitingEvent): boolean
  /** Number of events that were in no request yet. */
  waiting(): number
  /** Whether a group waits to be sent again. */
  hasRequeued(): boolean
  /** All events, including those in running requests. */
  all(): Iterable<WaitingEvent>
  size(): number
  /** `seq` of the next event. */
  nextSeq(): number
}

/** Creates a queue with limits on the number of events and the size of their JSON. */
export function eventQueue({ eventsMax, bytesMax }: { eventsMax: number; bytesMax: number }): EventQueue {
  const all = new Set<WaitingEvent>()
  const unsent = new Set<WaitingEvent>()
  const requeued: (readonly WaitingEvent[])[] = []
  let held = 0
  let seq = 0

  function takeUnsent(): WaitingEvent[] {
    const taken: WaitingEvent[] = []
    let bytes = 0
    for (const waiting of unsent) {
      bytes += waiting.event.bytes + 1
      if (taken.length === request.events || (taken.length > 0 && bytes > request.bytes)) break
      taken.push(waiting)
    }
    for (const waiting of taken) unsent.delete(waiting)
    return taken
  }

  return {
    hasRoom: (bytes) => all.size < eventsMax && held + bytes <= bytesMax,
    isHalfFull: () => all.size > eventsMax / 2 || held > bytesMax / 2,
    add: (event, file) => {
      const waiting = { seq: seq++, event, file }
      all.add(waiting)
      unsent.add(waiting)
      held += event.bytes
      return waiting
    },
    take: () => requeued.shift() ?? takeUnsent(),
    requeue: (...groups) => {
      requeued.push(...groups.filter(({ length }) => length > 0))
    },
    remove: (waiting) => {
      if (!all.delete(waiting)) return false
      held -= waiting.event.bytes
      return true
    },
    waiting: () => unsent.size,
    hasRequeued: () => requeued.length > 0,
    all: () => all,
    size: () => all.size,
    nextSeq: () => seq,
  }
}
