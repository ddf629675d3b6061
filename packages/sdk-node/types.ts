/** Properties of an event: strings, finite numbers, booleans, and objects and arrays of them. */
export type Properties = object

/**
 * Constraint of `Events`: the properties of each event type, `undefined` for a type that has none, as an interface or a
 * type alias.
 */
export type EventMap<Events> = { [Type in keyof Events]: object | undefined }

/** The default of `Events`: any event type with any properties. */
export type AnyEvents = Record<string, Properties>

/** Identifies an event: when a page and its server send it with the same two values, Sluice stores it once. */
export interface Receipt {
  event_id: string
  /** Unix ms. */
  timestamp: number
}

/** The user and the session of an event. */
export interface Context {
  /** The session, e.g. the one of the browser SDK. */
  session_id?: string | undefined
  /** The known user. */
  user_id?: string | undefined
  /** The visitor before a `user_id` is known. */
  anonymous_id?: string | undefined
}

/** Fields of an event besides its type and its properties. The context provides ids that are omitted. */
export interface EventFields extends Context {
  url?: string | undefined
  referrer?: string | undefined
  /** Two letters, such as `DE`. */
  country?: string | undefined
  device_type?: 'desktop' | 'mobile' | 'tablet' | undefined
  /** 1 to 64 characters; a new UUIDv7 by default. */
  event_id?: string | undefined
  /** Unix ms; now by default. A given timestamp is never corrected. */
  timestamp?: number | undefined
}

/** The outcome of the events that were queued when a flush began. */
export interface FlushResult {
  /** Events that Sluice has stored (202). */
  sent: number
  /** Events without an answer. */
  pending: number
  /** Events that Sluice refused; `onError` was called with the reason. */
  rejected: number
}

/** The kind of an error:
 *
 * - `invalid_event`: `track` was called with invalid arguments; no event is sent.
 * - `rejected`: Sluice refused an event.
 * - `queue_full`: events were dropped, because the queue was full; an event `sluice_dropped` counts them.
 * - `closed`: an event was tracked after `close()`, or was only in memory when the client stopped.
 * - `key_refused`: Sluice refused the key. Nothing is sent until `flush()` is called or the process is restarted.
 * - `unavailable`: several requests failed in a row. The events stay queued, and the requests are repeated.
 * - `clock_wrong`: the clock of this machine differs from Sluice's; events get Sluice's time.
 * - `spool_failed`: events could not be written to the spool. They are in memory, and are written when it works again.
 * - `spool_corrupt`: lines of a spool file could not be read, because a write was cut off or the file was damaged.
 */
export type ErrorCode =
  | 'invalid_event'
  | 'rejected'
  | 'queue_full'
  | 'closed'
  | 'key_refused'
  | 'unavailable'
  | 'clock_wrong'
  | 'spool_failed'
  | 'spool_corrupt'

/** The argument of `onError`. The message never contains the key. */
export interface SluiceError extends Error {
  readonly code: ErrorCode
  /** The number of events that the error is about. */
  readonly count: number
  /** The event, when the error is about one event. */
  readonly event?: Receipt
}

/** Options of `createSluice`. */
export interface Options {
  /** The address of Sluice, `https://in.example`. */
  url: string
  /** An API key with the scope `events:write`. */
  key: string
  /** The `site_id` of all events, 1 to 64 characters. */
  site: string
  /**
   * A folder on a local disk where events are kept until Sluice has stored them. Without it, they are in memory only.
   */
  spool?: string | undefined
  /**
   * Maximum size of this site's files in `spool`, in bytes; processes that write at the same time may exceed it together.
   * Further events are in memory only. 256 MiB by default.
   */
  spoolBytesMax?: number | undefined
  /**
   * The behaviour of `track` while the queue is full: `reject` drops the event and counts it, `wait` waits for room.
   */
  onFull?: 'reject' | 'wait' | undefined
  /** Maximum number of events that Sluice has not answered for. 100,000 by default. */
  queueEventsMax?: number | undefined
  /** Maximum size of these events as JSON, in bytes. 64 MiB by default. */
  queueBytesMax?: number | undefined
  /** Milliseconds after which a request without an answer has failed. 30,000 by default. */
  requestTimeoutMs?: number | undefined
  /** Called with each error. Without it, the SDK emits a process warning, once a minute for each code. */
  onError?: ((error: SluiceError) => void) | undefined
}

/** The arguments after the type: properties may be omitted when all of them are optional. */
export type TrackArguments<Event> = [undefined] extends [Event]
  ? [properties?: Event, fields?: EventFields]
  : [RequiredKeys<Event>] extends [never]
    ? [properties?: Event, fields?: EventFields]
    : [properties: Event, fields?: EventFields]

/** Names of the properties that are not optional. An index signature, as in `Record<string, never>`, has none. */
type RequiredKeys<Event> = {
  [Name in keyof Event]-?: string extends Name ? never : undefined extends Event[Name] ? never : Name
}[keyof Event]

/** The part of a request of Node's `http` or Express that the SDK reads. */
export interface NodeRequest {
  headers: Readonly<Record<string, string | string[] | undefined>>
}

/** The part of a Fetch API request that the SDK reads. */
export interface FetchRequest {
  headers: { get(name: string): string | null }
}

/** How long a call waits. */
export interface FlushOptions {
  /** In milliseconds. `Infinity` waits as long as a timer of Node can: 24 days. */
  timeoutMs?: number | undefined
}

/** A client of Sluice. `Tracked` is a `Receipt`, or with `onFull: 'wait'` a promise of one. */
export interface Sluice<Events extends EventMap<Events> = AnyEvents, Tracked = Receipt> {
  /**
   * Queues an event and fixes its id and its time. It never throws: errors are reported to `onError`. With `spool` the
   * event is written before `track` returns; with `onFull: 'wait'`, before the promise resolves.
   */
  track<Type extends keyof Events & string>(type: Type, ...rest: TrackArguments<Events[Type]>): Tracked
  /** Queues a `page_view`. */
  page(properties?: Properties, fields?: EventFields): Tracked
  /** Queues an `identify` event of the user; `traits` are its properties. */
  identify(userId: string, traits?: Properties, fields?: EventFields): Tracked
  /**
   * Sends all events that were tracked before. Resolves when Sluice has answered for all of them, after `timeoutMs`
   * (10,000 by default), or when Sluice refuses the key. It never rejects.
   */
  flush(options?: FlushOptions): Promise<FlushResult>
  /** The current context, as set by `withContext` or `middleware`. */
  context: () => Context
  /** Runs `fn`. Events that are tracked in it get the ids of `context`, also after an `await`. */
  withContext: <Result>(context: Context, fn: () => Result) => Result
  /** Express middleware: takes the context from the header `baggage`, which the browser SDK sends. */
  middleware(): (request: NodeRequest, response: unknown, next: (error?: unknown) => void) => void
  /** The same for a handler of Fetch API requests, such as a route handler of Next.js. */
  middleware<Request extends FetchRequest, Rest extends unknown[], Result>(
    handler: (request: Request, ...rest: Rest) => Result,
  ): (request: Request, ...rest: Rest) => Result
  /**
   * Flushes for `timeoutMs` at most (5,000 by default) and stops the client: later events are not sent, and reported to
   * `onError`. Pending events stay in the spool for the next start; without a spool they are lost.
   */
  close(options?: FlushOptions): Promise<FlushResult>
}
