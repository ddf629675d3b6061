/**
 * How long an event may be under way between its receipt and its 202, in ms: what `complete_until` rests on
 * (docs/decisions/013-complete-until.md).
 */
export const acceptance = {
  /** From the receipt of a request to the log's acknowledgement, by the gateway's clock; beyond it the answer is 503. */
  msMax: 5_000,
  /** Clocks of gateways and writers may be so far apart. */
  clockSkewMsMax: 2_000,
} as const
