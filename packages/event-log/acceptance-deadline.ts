/**
 * Longest time between the receipt of an event and its 202, in ms, from which `complete_until` is computed
 * (docs/decisions/013-complete-until.md).
 */
export const acceptance = {
  /** From the receipt of a request to the log's acknowledgement, by the gateway's clock; later ones are answered 503. */
  msMax: 5_000,
  /** Largest difference between the clocks of gateways and writers. */
  clockSkewMsMax: 2_000,
} as const
