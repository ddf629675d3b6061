import type { Point } from './geometry.ts'

/** A firing on the chart; a `to` of null lasts. */
export interface Band {
  from: number
  to: number | null
}

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

/** The bands that reach into a chart: a rule's history is kept for longer than its chart shows. */
export const shownBands = (bands: readonly Band[], series: readonly Point[]): Band[] =>
  bands.filter(({ to }) => to === null || to >= (series[0]?.timestamp ?? 0))

/** Whether a rule fires at a point, or at any time until the next one. */
export function isFiringAt(at: number, series: readonly Point[], bands: readonly Band[]): boolean {
  const from = series[at]?.timestamp ?? Infinity
  const next = series[at + 1]?.timestamp ?? Infinity
  return bands.some((band) => band.from < next && (band.to === null || band.to > from))
}
