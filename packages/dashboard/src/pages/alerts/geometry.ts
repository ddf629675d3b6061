export interface Point {
  timestamp: number
  value: number
}

/** Where values and times stand in a square of 1 × 1, from its upper left corner. */
export interface Scale {
  x: (ms: number) => number
  y: (value: number) => number
  /** The value at a height; heights beyond the square are its edges. */
  valueAt: (y: number) => number
  top: number
}

/**
 * The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below a value. The steps are coarser than those of
 * `niceTop`: this leaves more room above the threshold to drag it up.
 */
export function coarseTop(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 2.5, 5].find((step) => step * power >= value) ?? 10) * power
}

/** The scale of a chart from zero to a little above the highest value and the threshold. */
export function scaleOf(series: readonly Point[], threshold: number | undefined): Scale {
  const first = series[0]?.timestamp ?? 0
  const last = series.at(-1)?.timestamp ?? 1
  const highest = Math.max(0, ...series.map((point) => point.value), (threshold ?? 0) * 1.05)
  const top = coarseTop(highest)
  return {
    x: (ms) => Math.min(1, Math.max(0, (ms - first) / Math.max(1, last - first))),
    y: (value) => 1 - Math.min(1, Math.max(0, value / top)),
    valueAt: (y) => (1 - Math.min(1, Math.max(0, y))) * top,
    top,
  }
}

/** A value as one would type it: three significant digits. */
export const roundedTo3 = (value: number): number => Number(value.toPrecision(3))
