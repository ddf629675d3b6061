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
  /** The value at a height; heights beyond the square are its edges. */
  valueAt: (y: number) => number
  top: number
}

/**
 * The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below a value. The steps are coarser than those of
 * `niceTop`, which leaves more room above the threshold to drag it up.
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

/** The bands that reach into a chart: a rule's history is kept for longer than its chart shows. */
export const shownBands = (bands: readonly Band[], series: readonly Point[]): Band[] =>
  bands.filter(({ to }) => to === null || to >= (series[0]?.timestamp ?? 0))

/** Whether a rule fires at a point, or at any time until the next one. */
export function isFiringAt(at: number, series: readonly Point[], bands: readonly Band[]): boolean {
  const from = series[at]?.timestamp ?? Infinity
  const next = series[at + 1]?.timestamp ?? Infinity
  return bands.some((band) => band.from < next && (band.to === null || band.to > from))
}

/** A value as one would type it: three significant digits. */
export const roundedTo3 = (value: number): number => Number(value.toPrecision(3))

interface Entry {
  timestamp: number
  from: string
  to: string
  test: boolean
}

/**
 * Firings and their ends from the entries of a history, which are newest first, of a rule as it is now. A rule that is
 * switched off while it fires ends its firing without an entry: the band then ends at the next firing, or at the rule's
 * last change.
 */
export function bandsOf(entries: readonly Entry[], rule: { state: string; updated_at: number }): Band[] {
  const bands: Band[] = []
  for (const { timestamp, from, to, test } of entries.toReversed()) {
    if (test) continue
    const last = bands.at(-1)
    if (last?.to === null && (from === 'ok' || to === 'ok')) last.to = timestamp
    if (to !== 'ok' && last?.to !== null) bands.push({ from: timestamp, to: null })
  }
  const last = bands.at(-1)
  if (last?.to === null && rule.state === 'ok') last.to = Math.max(last.from, rule.updated_at)
  return bands
}
