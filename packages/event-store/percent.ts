/** The share of `part` in `whole` as percent with 2 decimals; 0 when `whole` is 0. */
export function percent(part = 0, whole = 0): number {
  return whole === 0 ? 0 : Math.round((10_000 * part) / whole) / 100
}
