/**
 * The share of `part` in `whole` as percent with 2 decimals, rounded half up like the SQL of session metrics. 0 when
 * `whole` is 0.
 */
export function percent(part = 0, whole = 0): number {
  return whole === 0 ? 0 : Math.floor((10_000 * part) / whole + 0.5) / 100
}
