import { expect, test } from '@jest/globals'
import { hasReached } from './has-reached.ts'

test.each([
  ['below them in one partition', 4n, false],
  ['at them in each partition', 5n, true],
])('a group that is %s', (_, offset, expected) => {
  const committed = [
    { partition: 0, offset, endOffset: 9n },
    { partition: 1, offset: 3n, endOffset: 9n },
  ]
  const endOffsets = new Map([
    [0, 5n],
    [1, 3n],
  ])
  expect(hasReached(committed, endOffsets)).toBe(expected)
})

test('a group that has read all of a new log, whose offsets are lower', () => {
  expect(hasReached([{ partition: 0, offset: 2n, endOffset: 2n }], new Map([[0, 5n]]))).toBe(true)
})

test('a partition without an end offset has nothing to be read', () => {
  expect(hasReached([{ partition: 7, offset: 0n, endOffset: 2n }], new Map([[0, 0n]]))).toBe(true)
})
