import { describe, expect, test } from '@jest/globals'
import { hourIndexes, niceTop, tickIndexes } from './scale.ts'

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

test('ticks of hours stand at the same times of each day, midnight among them, also after clocks were changed', () => {
  const from = (start: number) => (index: number) => (start + index) % 24
  expect(hourIndexes(24, 10, from(0))).toStrictEqual([0, 3, 6, 9, 12, 15, 18, 21])
  expect(hourIndexes(168, 11, from(0))).toStrictEqual([0, 24, 48, 72, 96, 120, 144])
  expect(hourIndexes(26, 5, from(10))).toStrictEqual([2, 8, 14, 20])
  expect(hourIndexes(71, 3, (index) => (index < 26 ? index : index + 1) % 24)).toStrictEqual([0, 24, 47])
})
