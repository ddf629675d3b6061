/** Properties of an event: strings, finite numbers, booleans, lists and nested objects of them. */
export type Properties = object

/** Where ids and unsent events are stored: nowhere, in the tab (sessionStorage), or on the device (IndexedDB). */
export type StorageKind = 'none' | 'tab' | 'device'

/** What the visitor has decided; nothing is stored or sent before `granted`. */
export type Consent = 'granted' | 'denied' | 'pending'

/** An event as it is sent. */
export interface SluiceEvent {
  site_id: string
  event_type: string
  /** Unix ms. */
  timestamp: number
  event_id: string
  session_id?: string | undefined
  anonymous_id?: string | undefined
  user_id?: string | undefined
  url?: string | undefined
  referrer?: string | undefined
  device_type?: string | undefined
  /** 2 letters or digits. The SDK does not set it; `before` can. */
  country?: string | undefined
  /** In `before`, as they are sent: dates are texts, for example. */
  properties?: Record<string, unknown> | undefined
}

/** An event of the SDK, which always has the address of its page. */
export type PageEvent = SluiceEvent & { url: string }

/** Identifies an event: Sluice stores events with the same id and time once, whoever sends them. */
export interface Receipt {
  /** At most 64 characters; a UUIDv7 by default. */
  event_id: string
  /** Unix ms; now by default. */
  timestamp: number
}

export interface Options {
  /** Address of Sluice, or of a proxy in front of it: `https://in.example`. */
  url: string
  /** A key with only the scope events:write: everybody can read it in the page. */
  key: string
  /** The site that the events belong to. */
  site: string
  /** Default `tab`. */
  storage?: StorageKind | undefined
  /** Whether the SDK tracks page views automatically; default true. */
  autoPage?: boolean | undefined
  /** Whether a change of the hash is a page view; default false: hashes are not sent. */
  hash?: boolean | undefined
  /** Whether clicks on links to other hosts are tracked as `outbound_click`; default false. */
  outbound?: boolean | undefined
  /**
   * What the SDK does when the browser sends Global Privacy Control or Do Not Track: `no-ids` (default) sends events
   * without ids and stores nothing, `off` sends nothing, `ignore` changes nothing.
   */
  gpc?: 'no-ids' | 'off' | 'ignore' | undefined
  /** `pending` keeps events in memory until `consent()` is called; default `granted`. */
  consent?: 'granted' | 'pending' | undefined
  /** Origins of servers: requests to them carry the session and the anonymous id as W3C `baggage`. */
  propagate?: readonly string[] | undefined
  /** Changes an event before it is queued, or drops it by returning null. It can't change site, id and time. */
  before?: ((event: PageEvent) => SluiceEvent | null) | undefined
  /** Called for each event that is not sent and for each failure. */
  onError?: ((error: Error, event?: SluiceEvent) => void) | undefined
}

/** What became of the events that were queued when a flush began. */
export interface FlushResult {
  sent: number
  pending: number
  rejected: number
}

/** The ids that new events get. */
export interface Context {
  session_id?: string | undefined
  anonymous_id?: string | undefined
  user_id?: string | undefined
}

/** The arguments after the type: properties may be omitted when all of them are optional. */
type Rest<P> = [undefined] extends [P]
  ? [properties?: P, at?: Partial<Receipt>]
  : [RequiredKeys<P>] extends [never]
    ? [properties?: P, at?: Partial<Receipt>]
    : [properties: P, at?: Partial<Receipt>]

/**
 * Names of the properties that are not optional. Of an index signature, as in `Record<string, never>`, there are none.
 */
type RequiredKeys<P> = { [K in keyof P]-?: string extends K ? never : undefined extends P[K] ? never : K }[keyof P]

/** The SDK. `Events`: the properties of each event type; any by default. No method throws. */
export interface Sluice<Events extends object = Record<string, Properties>> {
  /**
   * Queues an event. Returns its id and time: if a server sends the event with the same two values, Sluice stores it
   * once.
   */
  track: <K extends keyof Events & string>(type: K, ...rest: Rest<Events[K]>) => Receipt
  /** Queues a `page_view` of the current address. */
  page: (properties?: Properties) => Receipt
  /** Queues an `identify` event with the traits; it and all later events have this user. */
  identify: (userId: string, traits?: Properties) => Receipt
  /** Deletes the user, the anonymous id and the session, e.g. when the user signs out. */
  reset: () => void
  /** Sends the queued events. Resolves when all of them are sent or refused, or when nothing more can be sent now. */
  flush: () => Promise<FlushResult>
  /** `granted` sends the events that were kept in memory, `denied` deletes all stored and queued data. */
  consent: (decision: Consent) => void
  /** The ids that new events get; none before consent, and under a privacy signal unless `gpc` is `ignore`. */
  context: () => Context
  /** Sends the queued events and stops the SDK. */
  close: () => void
}
