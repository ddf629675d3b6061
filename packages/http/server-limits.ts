/** Limits of one service and of each of its clients. Times are in ms, sizes in bytes. */
export const serverLimits = {
  /** Size of the request line with the headers; 431 beyond it. */
  headerBytesMax: 16 * 1024,
  /** Number of headers; 431 beyond it. */
  headersMax: 200,
  /** A client that has not sent all headers within this time gets 408. */
  headersTimeoutMs: 10_000,
  /** A client that has not sent the whole request within this time gets 408, unless it uploads a file. */
  requestTimeoutMs: 60_000,
  /**
   * A client that uploads a file has, in addition to `requestTimeoutMs`, the time that the largest file needs at this
   * speed. After that the client is disconnected.
   */
  uploadBytesPerSecondMin: 32 * 1024,
  /** Interval at which the two times are checked. */
  timeoutCheckMs: 2_000,
  /**
   * A connection without any traffic in either direction during a request is closed, e.g. of a client that does not
   * read its response.
   */
  idleTimeoutMs: 120_000,
  /**
   * A connection is closed this time after its last response, unless SLUICE_KEEP_ALIVE_SECONDS has another. Longer than
   * the idle time of many load balancers (60 s), so that the balancer closes first and no request is lost.
   */
  keepAliveTimeoutMs: 65_000,
  /** Further connections are closed at once. */
  connectionsMax: 10_000,
  /** Memory of all requests in flight; 503 beyond it. */
  inFlightBytesMax: 64 * 1024 * 1024,
  /** Part of `inFlightBytesMax` for requests without a key. Their answers may take as much of `responseBytesMax`. */
  publicInFlightBytesMax: 4 * 1024 * 1024,
  /** Part of `inFlightBytesMax` for requests whose key is in a body that has not been read yet. */
  bodyKeyInFlightBytesMax: 8 * 1024 * 1024,
  /** Memory of all answers that are not written out; 503 beyond it. */
  responseBytesMax: 128 * 1024 * 1024,
  /**
   * Memory that is reserved for a request besides its body: its objects and buffers, and a response of up to this size.
   */
  requestBytes: 8 * 1024,
  /** Memory that is reserved for an upload: a chunk of the file in each buffer on its way, and the text fields. */
  uploadBytes: 256 * 1024,
  /** Memory of responses that is reserved for a download: a chunk of the file in each buffer on its way. */
  downloadBytes: 256 * 1024,
} as const

export type ServerLimits = { readonly [Name in keyof typeof serverLimits]: number }
