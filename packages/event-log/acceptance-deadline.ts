/**
 * Longest time between the receipt of an event and its 202, in ms. `complete_until` is computed from it
 * (docs/decisions/017-freshness.md).
 */
export const acceptance = {
  /**
   * From the receipt of a request to the log's acknowledgement. A request that takes longer is answered 503, because
   * the service is then overloaded.
   */
  msMax: 2_500,
  /**
   * Allows for errors that the bounds of `SynchronizedClock` do not cover: after a failover of Postgres the new
   * server's clock may differ, and a machine's clock may be adjusted quickly between two comparisons.
   */
  clockMarginMs: 300,
} as const
