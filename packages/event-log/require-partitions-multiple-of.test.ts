import { expect, test } from '@jest/globals'
import { requirePartitionsMultipleOf } from './require-partitions-multiple-of.ts'

test.each([
  [1, 1],
  [3, 1],
  [4, 2],
  [12, 4],
])('%i partitions are spread evenly over %i shards', (partitions, shards) => {
  expect(() => requirePartitionsMultipleOf(shards, partitions)).not.toThrow()
})

test.each([
  [1, 2],
  [6, 4],
  [4, 8],
])('%i partitions are not spread evenly over %i shards', (partitions, shards) => {
  expect(() => requirePartitionsMultipleOf(shards, partitions)).toThrow(
    expect.objectContaining({ internal: expect.stringContaining(`must be a multiple of ${shards}`) as unknown }),
  )
})
