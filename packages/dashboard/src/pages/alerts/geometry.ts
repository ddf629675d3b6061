/** A firing on the chart; a `to` of null lasts. */
export interface Band {
  from: number
  to: number | null
}

export interface Point {
  timestamp: number
  value: number
}

/** Where values and times stand in a square of 1 × 1, from its upper left corner. */
export interface Scale {
  x: (ms: number) => number
  y: (value: number) => number
  /** The value at a height. */
  valueAt: (y: number) => number
  top: number
}

/** The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below a value. */
export function niceTop(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 2.5, 5].find((step) => step * power >= value) ?? 10) * power
}

/** The scale of a chart from zero to a little above the highest value and the threshold. */
export function scaleOf(series: readonly Point[], threshold: number | undefined): Scale {
  const first = series[0]?.timestamp ?? 0
  const last = series.at(-1)?.timestamp ?? 1
  const highest = Math.max(0, ...series.map((point) => point.value), (threshold ?? 0) * 1.05)
  const top = niceTop(highest)
  return {
    x: (ms) => Math.min(1, Math.max(0, (ms - first) / Math.max(1, last - first))),
    y: (value) => 1 - Math.min(1, Math.max(0, value / top)),
    valueAt: (y) => Math.max(0, (1 - y) * top),
    top,
  }
}

/** A value as one would type it: three significant digits. */
export const roundedTo3 = (value: number): number => Number(value.toPrecision(3))

/** Firings and their ends from the entries of a history, which are newest first. */
export function bandsOf(entries: readonly { timestamp: number; from: string; to: string; test: boolean }[]): Band[] {
  const bands: Band[] = []
  for (const { timestamp, to, test } of entries.toReversed()) {
    const last = bands.at(-1)
    if (test) continue
    const isFiring = to !== 'ok'
    if (isFiring && last?.to !== null) bands.push({ from: timestamp, to: null })
    else if (!isFiring && last?.to === null) last.to = timestamp
  }
  return bands
}
