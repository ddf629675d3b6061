import { attempt } from './attempt.ts'
import { openDeviceStore } from './device-store.ts'
import { makeId } from './make-id.ts'
import { propagate } from './propagate.ts'
import { newEntry, openQueue, type Queue } from './queue.ts'
import { deviceType, pageUrl, wantsPrivacy } from './read-browser.ts'
import { readOptions } from './read-options.ts'
import { createSender, type Sender } from './sender.ts'
import { openTabStore } from './tab-store.ts'
import type { Consent, Context, Options, PageEvent, Properties, Receipt, Sluice, SluiceEvent } from './types.ts'
import { openVisitor, type Visitor } from './visitor.ts'
import { watchOutbound } from './watch-outbound.ts'
import { watchPages } from './watch-pages.ts'
import { wipeVisits } from './wipe-visits.ts'

/**
 * An event without the visitor's ids, its time by the device's clock (Unix ms), and whether the caller gave its time.
 * Without an event: a reset, which keeps its place among the events.
 */
type Draft = [event: PageEvent | undefined, deviceNow: number, isFixed: boolean]

/** The parts that exist while events may be stored and sent. */
interface Delivery {
  visitor: Visitor
  queue: Queue
  sender: Sender
  loaded: Promise<void>
}

/** Events that were dropped: how many, and from when to when (Unix ms). */
interface Drops {
  count: number
  from: number
  to: number
}

/** The size limit of an event in Sluice. */
const eventBytesMax = 32 * 1024
const textMax = 2_048
const heldMax = 100

/** Creates the SDK. Each failure is reported to `onError`, and each message once on the console. */
export function createCore(options: Options): Sluice {
  const warned = new Set<string>()
  const report = (reason: unknown, event?: SluiceEvent): void => {
    const message = String(reason)
    // eslint-disable-next-line no-console -- where the author of a page looks for errors
    if (!warned.has(message)) console.warn(`Sluice: ${message}`)
    warned.add(message)
    attempt(() => options.onError?.(new Error(message), event))
  }
  /** Runs a part of the SDK: an error is reported and never thrown into the page's code. */
  const guard = <T>(run: () => T): T | undefined => attempt(run, report)

  const { site, before, gpc, storage: wanted = 'tab' } = options
  let decision: Consent = options.consent ?? 'granted'
  const endpointFor = (consent: Consent): string => guard(() => readOptions({ ...options, consent }, report)) ?? ''
  // Without a document, a server is rendering the page: the SDK does nothing.
  const endpoint = typeof document === 'object' ? endpointFor(decision) : ''
  const hasSignal = endpoint && gpc !== 'ignore' && wantsPrivacy()
  let isInert = !endpoint || (gpc === 'off' && hasSignal)
  let isPrerendered = !isInert && !!(document as { prerendering?: boolean }).prerendering
  /** Whether events may be stored and sent now. */
  const isAllowed = (): boolean => decision === 'granted' && !isInert && !isPrerendered
  let delivery: Delivery | undefined
  const held: Draft[] = []
  let dropped: Drops | undefined
  const end = new AbortController()
  const { signal } = end

  /** Counts a dropped event; a dropped `sluice_dropped` counts as the events that it reports. */
  const onDrop = (event: SluiceEvent): void => {
    const { event_type, timestamp, properties } = event
    const { count = 1, from = timestamp } = ((event_type === 'sluice_dropped' && properties) ?? {}) as Partial<Drops>
    dropped = { count: (dropped?.count ?? 0) + count, from: Math.min(dropped?.from ?? from, from), to: timestamp }
    report('event not sent: queue full', event)
  }
  const reportDrops = (): void => {
    const properties = dropped
    dropped = undefined
    if (properties) track('sluice_dropped', properties)
  }

  const name = `sluice:${site}`
  const open = (): Delivery => {
    const storage = hasSignal ? 'none' : wanted
    const onFailure = (): undefined => {
      report('storage fails')
    }
    const isLasting = storage === 'device'
    const values = guard(() => (storage === 'none' ? undefined : isLasting ? localStorage : sessionStorage))
    const store = values && (isLasting ? openDeviceStore(name, onFailure) : openTabStore(values, name, onFailure))
    const visitor = openVisitor(values, name, isLasting)
    const queue = openQueue(store, onDrop)
    const sender = createSender({
      endpoint,
      queue,
      isAllowed,
      report,
      onTime: (serverNow, began) => {
        const skew = serverNow - Date.now()
        // A difference that the duration of the request may explain is no error of the clock. The duration is not
        // measured by performance.now(), which stands still while the device sleeps.
        visitor.change({ skew: Math.abs(skew) > 1_000 + Date.now() - began ? skew : 0 })
      },
      onRoom: reportDrops,
    })
    return { visitor, queue, sender, loaded: queue.load().then(sender.notice) }
  }

  /** Begins to store and send events, once the visitor consents and prerendering is over. */
  const begin = (): void => {
    if (!isAllowed()) return
    delivery ??= open()
    for (const draft of held.splice(0)) {
      guard(() => {
        commit(...draft)
      })
    }
    reportDrops()
    delivery.sender.notice()
  }

  /** Queues an event with the ids of the visitor, or keeps it in memory until storing is allowed. */
  const commit = (tracked: PageEvent | undefined, deviceNow: number, isFixed: boolean): void => {
    // A copy: the page may change its objects later, and `before` may change them now.
    const event = tracked && (JSON.parse(JSON.stringify(tracked)) as PageEvent)
    if (!delivery || !isAllowed()) {
      held.push([event, deviceNow, isFixed])
      // A reset that is the oldest call stays, because the events after it belong to another visitor.
      const oldest = held.length > heldMax && held.splice(held[0]?.[0] ? 0 : 1, 1)[0]?.[0]
      if (oldest) onDrop(oldest)
      return
    }
    const { visitor, queue, sender } = delivery
    if (!event) {
      visitor.forget()
      return
    }
    const { site_id, timestamp, event_id, user_id } = event
    if (user_id) visitor.change({ user_id })
    const full = { ...event, user_id: undefined, ...idsAt(deviceNow, true) }
    const changed = before ? before(full) : full
    if (!changed) return
    const entry = newEntry(JSON.stringify({ ...changed, site_id, timestamp, event_id }), isFixed)
    if (entry.bytes > eventBytesMax) {
      report('event not sent: over 32 KiB', full)
      return
    }
    queue.add(entry)
    sender.notice()
  }

  /**
   * Queues an event. `more` reads further fields: only if the event is tracked, and its errors are reported, not
   * thrown.
   */
  const track = (
    event_type: string,
    given?: Properties,
    at?: Partial<Receipt> | null,
    more?: () => Pick<SluiceEvent, 'user_id' | 'referrer' | 'properties'>,
  ): Receipt => {
    const deviceNow = Date.now()
    const now = deviceNow + (delivery?.visitor.read().skew ?? 0)
    const { event_id = makeId(now), timestamp = now } = at ?? {}
    guard(() => {
      if (isInert || decision === 'denied') return
      const url = pageUrl(options.hash).slice(0, textMax)
      const device_type = deviceType()
      const properties = given as SluiceEvent['properties']
      const event = { site_id: site, event_type, timestamp, event_id, url, device_type, properties, ...more?.() }
      if ([event_type, event_id, event.user_id ?? 'none'].every(isText) && timestamp > 0) {
        commit(event, deviceNow, !!at?.timestamp)
      } else {
        report('event not sent: type, id or time')
      }
    })
    return { event_id, timestamp }
  }

  const page = (referrer?: string, properties?: Properties): Receipt =>
    track('page_view', undefined, null, () => ({
      properties: { title: document.title.slice(0, textMax), ...properties },
      referrer: (referrer ?? document.referrer).slice(0, textMax),
    }))

  /** The ids of an event or, without `isEvent`, those that the page may read or send. */
  const idsAt = (deviceNow: number, isEvent?: boolean): Context =>
    (hasSignal || !isAllowed() ? undefined : delivery?.visitor.ids(deviceNow, isEvent)) ?? {}
  const context = (): Context => idsAt(Date.now())

  const leave = (): void => {
    attempt(() => delivery?.sender.leave())
  }

  const start = (): void => {
    isPrerendered = false
    begin()
    // Events are sent at once when the page is hidden or left, and when it becomes visible or comes online again.
    for (const type of ['visibilitychange', 'pagehide', 'online']) addEventListener(type, leave, { signal })
    // It fails in part where the page has made its history read-only, and the rest must not be missing then.
    guard(() => {
      if (options.autoPage ?? true) watchPages(page, options.hash, signal)
    })
    if (options.propagate) propagate(options.propagate, context, report, signal)
    if (!options.outbound) return
    watchOutbound((url) => {
      track('outbound_click', { url: url.slice(0, textMax) })
      leave()
    }, signal)
  }
  if (isPrerendered) document.addEventListener('prerenderingchange', () => guard(start))
  else if (!isInert) guard(start)

  return {
    track,
    page: (properties) => page(undefined, properties),
    // Pages in JavaScript may pass no user, which must not become an event of nobody.
    identify: (user_id: string | null | undefined, traits) =>
      track('identify', traits, null, () => ({ user_id: user_id ?? '' })),
    reset: () => {
      // The visitor is forgotten at once, unless events are held that were made before: these still get the ids.
      if (!held.length) delivery?.visitor.forget()
      if (!isInert && decision !== 'denied') commit(undefined, 0, true)
    },
    flush: async () => {
      await delivery?.loaded
      const flushed = (await delivery?.sender.flush()) ?? { sent: 0, pending: 0, rejected: 0 }
      flushed.pending += held.length
      return flushed
    },
    consent: (next) => {
      if (next !== 'denied' && !endpointFor(next)) return
      decision = next
      begin()
      if (next !== 'denied' || !endpoint) return
      delivery?.sender.stop()
      delivery = undefined
      held.splice(0)
      wipeVisits(name, report)
    },
    context,
    close: () => {
      leave()
      delivery?.sender.stop()
      isInert = true
      end.abort()
    },
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && /^.{1,64}$/su.test(value)
}
