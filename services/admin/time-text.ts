/** A time for people, in UTC: `2025-01-31T12:00:00.000Z`; `at` in Unix ms. Throws RangeError for no valid time. */
export function timeText(at: number): string {
  return new Date(at).toISOString()
}
