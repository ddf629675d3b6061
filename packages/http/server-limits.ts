/** What one service takes at a time, and from one client. Times in ms, sizes in bytes. */
export const serverLimits = {
  /** Request line and headers: 431 beyond it. */
  headerBytesMax: 16 * 1024,
  /** More headers than that are left out, as Node has it. */
  headersMax: 200,
  /** A client that has not sent all headers by then gets 408 … */
  headersTimeoutMs: 10_000,
  /** … and so does one that has not sent the whole request. */
  requestTimeoutMs: 60_000,
  /** How often the two are looked at. */
  timeoutCheckMs: 2_000,
  /** A connection on which nothing moves in either direction is closed: a client that does not read its answer. */
  idleTimeoutMs: 120_000,
  /** Longer than the idle time of usual load balancers (60 s), so that the balancer closes first and no request is lost. */
  keepAliveTimeoutMs: 65_000,
  /** Further connections are closed at once. */
  connectionsMax: 10_000,
  /** What requests under way may hold in memory: 503 beyond it. */
  inFlightBytesMax: 64 * 1024 * 1024,
  /** What those may hold of it who need no key. */
  publicInFlightBytesMax: 4 * 1024 * 1024,
  /** What a request counts for besides its body: its objects and buffers. */
  requestBytes: 8 * 1024,
} as const
