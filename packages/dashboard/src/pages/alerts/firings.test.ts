import { expect, it } from '@jest/globals'
import { bandsOf, isFiringAt, shownBands } from './firings.ts'

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
