import { describe, expect, test } from '@jest/globals'
import { niceTop, tickIndexes } from './scale.ts'

describe('the top of a scale', () => {
  test.each([
    [0, 1],
    [1, 1],
    [7, 8],
    [11, 12],
    [162, 200],
    [0.3, 0.3],
    [98.2, 100],
    [1_240_312, 1_600_000],
  ])('of %d is %d', (highest, top) => expect(niceTop(highest)).toBe(top))

  test('holds the highest value and is at most twice as much', () => {
    for (let highest = 1; highest < 1e9; highest = Math.ceil(highest * 1.07)) {
      expect(niceTop(highest)).toBeGreaterThanOrEqual(highest)
      expect(niceTop(highest)).toBeLessThanOrEqual(2 * highest)
    }
  })
})

test('ticks are spread evenly from the first bucket on', () => {
  expect(tickIndexes(28, 10)).toStrictEqual([0, 3, 6, 9, 12, 15, 18, 21, 24, 27])
  expect(tickIndexes(3, 10)).toStrictEqual([0, 1, 2])
  expect(tickIndexes(0, 10)).toStrictEqual([])
})
