/**
 * Longest time between the receipt of an event and its 202, in ms, from which `complete_until` is computed
 * (docs/decisions/017-freshness.md).
 */
export const acceptance = {
  /**
   * From the receipt of a request to the log's acknowledgement; later ones are answered 503, as an overload is by then.
   */
  msMax: 2_500,
  /**
   * Errors that the bounds of `SynchronizedClock` do not cover: clocks of Postgres servers that differ when one takes
   * over from another, and a machine's clock that is adjusted quickly between two comparisons.
   */
  clockMarginMs: 300,
} as const
