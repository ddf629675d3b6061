/**
 * The top of a scale that begins at 0: the smallest of 1, 2, 3, 4, 5, 6, 8 × 10ⁿ that holds the highest value, so that
 * its half and itself are round numbers. 1 where there is nothing to show.
 */
export function niceTop(highest: number): number {
  if (!(highest > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(highest))
  const step = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= highest) ?? 10
  return Number((step * power).toPrecision(12))
}

/** At most `most` indexes, evenly spread from the first on. */
export function tickIndexes(length: number, most: number): number[] {
  const step = Math.max(1, Math.ceil(length / most))
  return Array.from({ length: Math.ceil(length / step) }, (_, at) => at * step)
}
