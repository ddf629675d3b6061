/**
 * The top of a scale that begins at 0: the smallest listed step × 10ⁿ that is not below the highest value, so that the
 * top and its half are round numbers. 1 where there is nothing to show.
 */
export function niceTop(highest: number): number {
  if (!(highest > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(highest))
  const step = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= highest) ?? 10
  return Number((step * power).toPrecision(12))
}

const everyNth = (length: number, step: number): number[] =>
  Array.from({ length: Math.ceil(length / step) }, (_, at) => at * step)

/** At most `most` indexes, evenly spread from the first on. */
export const tickIndexes = (length: number, most: number): number[] =>
  everyNth(length, Math.max(1, Math.ceil(length / most)))

/** Numbers of hours after which a time of day recurs. */
const hourSteps = [1, 2, 3, 4, 6, 8, 12]

/**
 * At most `most` indexes of hours, at the same times of each day, midnight among them. `hourAt` gives the hour of the day
 * of an index.
 */
export function hourIndexes(length: number, most: number, hourAt: (index: number) => number): number[] {
  const least = length / most
  const step = hourSteps.find((each) => each >= least) ?? Math.ceil(least / 24) * 24
  const recurring = Math.min(step, 24)
  return everyNth(length, step)
    .map((at) => {
      // The range begins at another hour, or clocks have changed: the nearest hour that recurs.
      const late = hourAt(at) % recurring
      return at - (late > recurring / 2 ? late - recurring : late)
    })
    .filter((at) => at >= 0 && at < length)
}
