import { expect, test } from '@jest/globals'
import { diskSpace } from './disk-space.ts'

test('blocks are counted in the fragment size, not in the size of a transfer', () => {
  const shared = {
    type: 0,
    bsize: 1_048_576,
    frsize: 4_096,
    blocks: 1_000,
    bfree: 600,
    bavail: 500,
    files: 0,
    ffree: 0,
  }
  expect(diskSpace(shared)).toEqual({ freeBytes: 2_048_000, sizeBytes: 4_096_000 })
})
