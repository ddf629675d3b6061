import { expect, test } from '@jest/globals'
import { requireWholePartitions } from './require-whole-partitions.ts'

test.each([
  [1, 1],
  [3, 1],
  [4, 2],
  [12, 4],
])('%i partitions are spread evenly over %i shards', (partitions, shards) => {
  expect(() => {
    requireWholePartitions(partitions, shards)
  }).not.toThrow()
})

test.each([
  [1, 2],
  [6, 4],
  [4, 8],
])('%i partitions are not spread evenly over %i shards', (partitions, shards) => {
  expect(() => {
    requireWholePartitions(partitions, shards)
  }).toThrow(
    expect.objectContaining({ internal: expect.stringContaining(`must be a multiple of ${shards}`) as unknown }),
  )
})
