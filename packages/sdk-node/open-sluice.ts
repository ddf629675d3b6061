import { eventLimits } from '@sluice/contracts/event-limits'
import { errorReporter } from './error-reporter.ts'
import { eventContext } from './event-context.ts'
import { eventQueue, type WaitingEvent } from './event-queue.ts'
import { flushes } from './flushes.ts'
import { atTime, newEvent, newEventId, type QueuedEvent } from './new-event.ts'
import { eventPoster } from './post-events.ts'
import { readOptions, timeoutMsMax } from './read-options.ts'
import { eventSender } from './sender.ts'
import { serverClock } from './server-clock.ts'
import { openSpool, type Spool } from './spool.ts'
import { spoolScope } from './spool-names.ts'
import { activeTraceId } from './trace-id.ts'
import type {
  EventFields,
  EventMap,
  FetchRequest,
  FlushOptions,
  FlushResult,
  NodeRequest,
  Options,
  Properties,
  Receipt,
  Sluice,
} from './types.ts'

const flushMs = 10_000
const closeMs = 5_000
/** How often events in memory are written and files of processes that have ended are searched for, in ms. */
const spoolEveryMs = 30_000

/** Events that were dropped since the last `sluice_dropped`; times in Unix ms. */
interface Dropped {
  count: number
  from: number
  to: number
}

/** `createSluice`. `wall` is the clock of this machine in Unix ms; tests replace it. */
export function openSluice<Events extends EventMap<Events>>(
  options: Options,
  wall: () => number = Date.now,
): Sluice<Events> | Sluice<Events, Promise<Receipt>> {
  const settings = readOptions(options)
  const { site, queueEventsMax, queueBytesMax } = settings
  const report = errorReporter(settings.onError)
  const clock = serverClock(wall, () => performance.now())
  const contexts = eventContext()
  const queue = eventQueue({ eventsMax: queueEventsMax, bytesMax: queueBytesMax })
  const spool = open()
  const sender = eventSender({
    queue,
    clock,
    report,
    post: eventPoster(settings.url, settings.key, settings.requestTimeoutMs),
    onSettled: settle,
    onTimeRefused: replaceRefusedTime,
    onStopped: () => flushing.endAll(),
  })
  const flushing = flushes(queue, sender)
  /** Calls of `track` that wait until the queue has room. */
  const waiters: (() => void)[] = []
  let dropped: Dropped | undefined
  let closing: Promise<FlushResult> | undefined
  let isClosed = false

  let orphans = takeOrphans()
  const spoolTimer = setInterval(() => {
    if (spool?.canRetry()) spoolRest()
    orphans = takeOrphans()
  }, spoolEveryMs).unref()

  function open(): Spool | undefined {
    const { spool: folder, spoolBytesMax: bytesMax } = settings
    if (folder === undefined) return undefined
    const onTaken = (file: object): void => {
      for (const waiting of queue.all()) if (waiting.file === file) waiting.file = undefined
      spoolRest()
    }
    try {
      return openSpool({ folder, scope: spoolScope(settings), bytesMax, report, onTaken })
    } catch (error) {
      throw new TypeError(`createSluice: spool can't be used: ${String(error)}`, { cause: error })
    }
  }

  /** Writes the events that are only in memory, e.g. because the disk was full. */
  function spoolRest(): void {
    for (const waiting of queue.all()) {
      waiting.file ??= spool?.append(waiting.event)
      if (!waiting.file) return
    }
  }

  async function takeOrphans(): Promise<void> {
    // A file is loaded only while the queue is at most half full, so that there is room for new events.
    while (spool && !isClosed && !queue.isHalfFull()) {
      const orphan = await spool.takeOrphan().catch((error: unknown) => {
        report('spool_failed', `The spool can't be read: ${String(error)}`)
        return undefined
      })
      if (!orphan) return
      for (const event of orphan.events) queue.add(event, orphan.file)
      sender.wake()
    }
  }

  function put(event: QueuedEvent): void {
    if (spool?.canRetry()) spoolRest()
    queue.add(event, spool?.append(event))
    sender.wake()
  }

  function drop({ timestamp }: QueuedEvent): void {
    const at = Math.trunc(timestamp)
    dropped = {
      count: (dropped?.count ?? 0) + 1,
      from: Math.min(dropped?.from ?? at, at),
      to: Math.max(dropped?.to ?? at, at),
    }
  }

  /** Queues the event that counts the dropped events. A single event may exceed the limits of the queue. */
  function queueDropCount(): void {
    if (!dropped) return
    const properties = { ...dropped }
    dropped = undefined
    put(newEvent({ site, type: 'sluice_dropped', properties, fields: {}, now: clock.now() }))
  }

  function settle(waiting: WaitingEvent, error?: string): void {
    if (!queue.remove(waiting)) return
    if (waiting.file) spool?.done(waiting.file)
    const { event } = waiting
    if (error !== undefined) report('rejected', `Sluice refused the event ${event.event_id}: ${error}`, { event })
    flushing.settle(waiting.seq, error === undefined)
    if (dropped && queue.hasRoom(0)) queueDropCount()
    waiters.shift()?.()
  }

  function replaceRefusedTime(waiting: WaitingEvent, behindMs: number): boolean {
    const { event, file } = waiting
    const now = clock.now()
    // This assumes that the clock was wrong by the same amount when the event was tracked. A clock that was changed
    // since, or an event of another process, may give a time in the future, which is replaced with the current time.
    const corrected = event.timestamp + Math.trunc(behindMs)
    const other = atTime(event, corrected < eventLimits.timestampMsMin ? now : Math.min(corrected, now))
    // The time is written to the spool before it is sent: after a restart the event must be sent with the same time.
    if (file && spool && !spool.replace(file, other, event.timestamp)) return false
    waiting.event = other
    return true
  }

  function make(type: string, properties: Properties | undefined, maybe?: EventFields): QueuedEvent | Receipt {
    const now = clock.now()
    // Callers in JavaScript also pass null.
    const fields = maybe ?? {}
    try {
      const trace = activeTraceId()
      const all = trace === undefined ? properties : { trace_id: trace, ...properties }
      return newEvent({ site, type, properties: all, fields: { ...contexts.context(), ...withoutAbsent(fields) }, now })
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      // Callers in JavaScript may pass a type that can't be converted to a text.
      const name = typeof type === 'string' ? type : 'type'
      report('invalid_event', `Invalid event ${name}: ${reason}`)
      return { event_id: fields.event_id ?? newEventId(now), timestamp: fields.timestamp ?? now }
    }
  }

  /** Queues an event, or drops it when the client is closed or, for the reason `whyFull`, the queue is full. */
  function enqueue(event: QueuedEvent, whyFull: string): void {
    if (isClosed) report('closed', 'An event was tracked after close()', { event })
    else if (queue.hasRoom(event.bytes)) put(event)
    else {
      drop(event)
      report('queue_full', `The queue is full ${whyFull}: an event was dropped`, { event })
    }
  }

  function trackOrDrop(type: string, properties?: Properties, fields?: EventFields): Receipt {
    const event = make(type, properties, fields)
    if ('json' in event) enqueue(event, `(${queue.size()} events)`)
    return { event_id: event.event_id, timestamp: event.timestamp }
  }

  async function trackOrWait(type: string, properties?: Properties, fields?: EventFields): Promise<Receipt> {
    const event = make(type, properties, fields)
    if ('json' in event) {
      // Callers that do not await the promise are limited, too.
      while (!isClosed && !queue.hasRoom(event.bytes) && waiters.length < queueEventsMax) {
        await new Promise<void>((resolve) => waiters.push(resolve))
      }
      enqueue(event, `and ${waiters.length} calls wait`)
      // A large event that left may have made room for several.
      if (queue.hasRoom(0)) waiters.shift()?.()
    }
    return { event_id: event.event_id, timestamp: event.timestamp }
  }

  async function flush({ timeoutMs: wanted = flushMs }: FlushOptions = {}): Promise<FlushResult> {
    const timeoutMs = Math.min(wanted, timeoutMsMax)
    const endsAt = performance.now() + timeoutMs
    queueDropCount()
    if (spool) await within(orphans, timeoutMs)
    return flushing.start(Math.max(0, endsAt - performance.now()))
  }

  async function close({ timeoutMs = closeMs }: FlushOptions = {}): Promise<FlushResult> {
    const result = await flush({ timeoutMs })
    isClosed = true
    clearInterval(spoolTimer)
    sender.close()
    for (const resolve of waiters.splice(0)) resolve()
    spoolRest()
    const lost = [...queue.all()].filter(({ file }) => !file).length
    if (lost > 0) report('closed', `${lost} events were in memory alone when close() ended`, { count: lost })
    spool?.close()
    return result
  }

  function methods<Tracked>(track: (type: string, properties?: Properties, fields?: EventFields) => Tracked) {
    return {
      track,
      page: (properties?: Properties, fields?: EventFields) => track('page_view', properties, fields),
      identify: (userId: string, traits?: Properties, fields?: EventFields) =>
        track('identify', traits, { ...fields, user_id: userId }),
      flush,
      context: contexts.context,
      withContext: contexts.withContext,
      middleware,
      close: (wanted?: FlushOptions) => (closing ??= close(wanted)),
    }
  }

  function middleware(): (request: NodeRequest, response: unknown, next: (error?: unknown) => void) => void
  function middleware<Request extends FetchRequest, Rest extends unknown[], Result>(
    handler: (request: Request, ...rest: Rest) => Result,
  ): (request: Request, ...rest: Rest) => Result
  function middleware<Rest extends unknown[], Result>(handler?: (request: FetchRequest, ...rest: Rest) => Result) {
    if (handler)
      return (request: FetchRequest, ...rest: Rest) => contexts.ofRequest(request, () => handler(request, ...rest))
    return (request: NodeRequest, _response: unknown, next: () => void) => contexts.ofRequest(request, next)
  }

  return settings.onFull === 'wait' ? methods(trackOrWait) : methods(trackOrDrop)
}

function withoutAbsent(fields: EventFields): EventFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null))
}

/** Resolves once `promise` has, or after `ms`. The timer keeps the process running. */
async function within(promise: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([promise, timeout])
  clearTimeout(timer)
}
