import { Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import { partBytes } from '../part-bytes.ts'
import { splitIntoParts } from './split-into-parts.ts'

const mebibyte = 1024 * 1024

test('the parts of S3 grow, so that 10,000 hold 430 GiB and none needs much memory', () => {
  const sizes = Array.from({ length: 10_000 }, (_, index) => partBytes(index + 1))
  expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeGreaterThan(429 * 1024 * mebibyte)
  expect(Math.max(...sizes)).toBe(80 * mebibyte)
  expect([sizes[0], sizes[999], sizes[1000]]).toEqual([8 * mebibyte, 8 * mebibyte, 16 * mebibyte])
})

test.each([
  [[], [0]],
  [[1], [1]],
  [[5, 3], [8]],
  [
    [5, 3, 1],
    [8, 1],
  ],
  [
    [5, 5, 5, 5],
    [10, 10],
  ],
  [
    [20, 1],
    [20, 1],
  ],
])('chunks of %j MiB become parts of %j MiB', async (chunks, expected) => {
  const content = Readable.from(chunks.map((mebibytes) => Buffer.alloc(mebibytes * mebibyte)))
  const parts: number[] = []
  for await (const part of splitIntoParts(content, undefined)) parts.push(part.length / mebibyte)
  expect(parts).toEqual(expected)
})
