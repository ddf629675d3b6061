import { type MeasuredWindow, measuredWindow } from '@sluice/contracts/alert-state'
import { isSessionMetric } from '@sluice/contracts/stats'
import { minuteMs } from '@sluice/contracts/time-units'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { type AlertSpec, countsEvents } from './alert-spec.ts'
import type { MeasureOptions } from './measure-alert.ts'
import {
  type MinuteRow,
  minutesStatement,
  type PointGrid,
  type PointRow,
  pointsStatement,
} from './series-statements.ts'

/** The values that a rule would have measured, at evenly spaced times. */
export interface AlertSeries {
  /** Time between two points, in ms: a minute for numbers of events, else a twelfth of the window. */
  stepMs: number
  /** In ascending order. `timestamp` is the end of the window, in Unix ms. */
  points: { timestamp: number; measured: MeasuredWindow }[]
}

/** The times of the points: after `start`, up to and including `end`, Unix ms. */
interface SeriesRange {
  start: number
  end: number
}

const pointsPerWindow = 12

/**
 * Measures a spec at many times of the range, whose end is a whole minute. Each value is the one that `measureAlert`
 * returns for that time. A number of events takes one statement, other metrics take up to three. Throws
 * QueryTooLargeError and the other errors of the runner.
 */
export async function measureAlertSeries(
  spec: AlertSpec,
  range: SeriesRange,
  options: MeasureOptions,
  runner: QueryRunner,
): Promise<AlertSeries> {
  return countsEvents(spec) ? countSeries(spec, range, options, runner) : metricSeries(spec, range, options, runner)
}

async function countSeries(
  spec: AlertSpec,
  { start, end }: SeriesRange,
  { comparesPrevious }: MeasureOptions,
  runner: QueryRunner,
): Promise<AlertSeries> {
  const { windowMs } = spec
  const count = await countInWindows(spec, { start: start - (comparesPrevious ? windowMs : 0), end }, runner)
  const times = timesOf({ start, end, stepMs: minuteMs })
  const points = times.map((timestamp) => {
    const [value, previous] = [count(timestamp), comparesPrevious ? count(timestamp - windowMs) : 0]
    return { timestamp, measured: measuredWindow({ value, previous, hasData: false }) }
  })
  return { stepMs: minuteMs, points }
}

async function metricSeries(
  spec: AlertSpec,
  { start, end }: SeriesRange,
  { comparesPrevious, distinguishesNoData }: MeasureOptions,
  runner: QueryRunner,
): Promise<AlertSeries> {
  const { windowMs } = spec
  const stepMs = Math.max(minuteMs, Math.floor(windowMs / pointsPerWindow / minuteMs) * minuteMs)
  const times = timesOf({ start, end, stepMs })
  const grid = { first: times[0] ?? end, stepMs, points: times.length }
  const read = async (atGrid: PointGrid): Promise<Map<number, number>> => {
    const { rows } = await runner.query<PointRow>(pointsStatement(spec, atGrid))
    return new Map(rows.map(({ point, value }) => [point, value]))
  }
  const values = await read(grid)
  const previous = comparesPrevious ? await read({ ...grid, first: grid.first - windowMs }) : undefined
  const isOfSessions = isSessionMetric(spec.metric)
  const isCountNeeded = distinguishesNoData && !isOfSessions
  const count = isCountNeeded ? await countInWindows(spec, { start, end }, runner) : undefined
  const points = times.map((timestamp, index) => {
    const [value, before] = [values.get(index) ?? 0, previous?.get(index) ?? 0]
    // A point has a value of 0 only when sessions began in its window: without any, it has no row.
    const hasData = isOfSessions ? values.has(index) : count !== undefined && count(timestamp) > 0
    return { timestamp, measured: measuredWindow({ value, previous: before, hasData }) }
  })
  return { stepMs, points }
}

/** The ends of the windows, the last one at `end`. */
function timesOf({ start, end, stepMs }: SeriesRange & { stepMs: number }): number[] {
  const count = Math.floor((end - start) / stepMs)
  return Array.from({ length: count }, (_, index) => end - (count - 1 - index) * stepMs)
}

/**
 * Reads the events once, and returns a function that counts those of the window with a given end, from `start` to
 * `end`.
 */
async function countInWindows(
  spec: AlertSpec,
  { start, end }: SeriesRange,
  runner: QueryRunner,
): Promise<(windowEnd: number) => number> {
  const { windowMs } = spec
  const first = start - windowMs
  const { rows } = await runner.query<MinuteRow>(minutesStatement(spec, { start: first, end }))
  // The number of events before each minute.
  const before = new Float64Array((end - first) / minuteMs + 1)
  for (const { minute, events } of rows) before[minute - first / minuteMs + 1] = events
  for (let index = 1; index < before.length; index += 1) {
    before[index] = (before[index] ?? 0) + (before[index - 1] ?? 0)
  }
  const countBefore = (time: number): number => before[(time - first) / minuteMs] ?? 0
  return (windowEnd) => countBefore(windowEnd) - countBefore(windowEnd - windowMs)
}
