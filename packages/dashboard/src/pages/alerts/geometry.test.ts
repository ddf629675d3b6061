import { expect, it } from '@jest/globals'
import { coarseTop, roundedTo3, scaleOf } from './geometry.ts'

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
