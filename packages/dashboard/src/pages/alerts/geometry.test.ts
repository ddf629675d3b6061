import { expect, it } from '@jest/globals'
import { bandsOf, coarseTop, isFiringAt, roundedTo3, scaleOf, shownBands } from './geometry.ts'

it('the top of a chart is a round number that is not below the highest value', () => {
  expect([0, 1, 1.2, 23, 26, 51, 999, 0.03].map(coarseTop)).toStrictEqual([1, 1, 2, 25, 50, 100, 1000, 0.05])
})

it('the scale holds the threshold too, and gives back the value of a height', () => {
  const scale = scaleOf(
    [
      { timestamp: 1_000, value: 4 },
      { timestamp: 3_000, value: 8 },
    ],
    40,
  )
  expect(scale.top).toBe(50)
  expect([scale.x(1_000), scale.x(2_000), scale.x(9_000)]).toStrictEqual([0, 0.5, 1])
  expect(scale.y(25)).toBe(0.5)
  expect(scale.valueAt(0.5)).toBe(25)
  // A pointer that is dragged leaves the square.
  expect([scale.valueAt(-0.5), scale.valueAt(1.5)]).toStrictEqual([50, 0])
  expect(roundedTo3(12.3456)).toBe(12.3)
})

it('a history is bands from each firing to its end; tests are none, and the last one may last', () => {
  const entry = (timestamp: number, to: string, test = false) => ({ timestamp, from: 'ok', to, test })
  const newestFirst = [entry(9, 'firing'), entry(5, 'ok'), entry(4, 'ok', true), entry(3, 'firing')]
  expect(bandsOf(newestFirst, { state: 'firing', updated_at: 1 })).toStrictEqual([
    { from: 3, to: 5 },
    { from: 9, to: null },
  ])
})

it('a firing that ended because the rule was switched off has an end', () => {
  const entry = (timestamp: number, from: string, to: string) => ({ timestamp, from, to, test: false })
  const newestFirst = [entry(9, 'ok', 'firing'), entry(4, 'firing', 'no_data'), entry(3, 'ok', 'firing')]
  expect(bandsOf(newestFirst, { state: 'ok', updated_at: 12 })).toStrictEqual([
    { from: 3, to: 9 },
    { from: 9, to: 12 },
  ])
})

it('a firing that ended before the chart begins is not a band, one that lasts into the chart is', () => {
  const series = [30, 40].map((timestamp) => ({ timestamp, value: 1 }))
  const bands = [
    { from: 5, to: 9 },
    { from: 20, to: 31 },
    { from: 25, to: null },
  ]
  expect(shownBands(bands, series)).toStrictEqual(bands.slice(1))
})

it('a rule fires at a point while a firing lasts, also one that ends before the next point', () => {
  const series = [0, 10, 20, 30].map((timestamp) => ({ timestamp, value: 1 }))
  const firingAt = (bands: { from: number; to: number | null }[]) =>
    series.map((_, at) => isFiringAt(at, series, bands))
  expect(firingAt([{ from: 10, to: 20 }])).toStrictEqual([false, true, false, false])
  expect(firingAt([{ from: 12, to: 15 }])).toStrictEqual([false, true, false, false])
  expect(firingAt([{ from: 20, to: null }])).toStrictEqual([false, false, true, true])
})
