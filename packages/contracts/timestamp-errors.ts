/**
 * Ends of the error messages for timestamps that are wrong because of a clock (docs/http-interface.md#event-fields). An
 * event that was refused for one of these reasons is not stored, so an SDK may correct its timestamp.
 */
export const timestampErrors = {
  past: 'must be Unix time in milliseconds, not before 1971',
  future: 'must not be more than 24 hours in the future',
} as const
