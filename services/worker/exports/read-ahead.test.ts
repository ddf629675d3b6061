import { Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import { readAhead } from './read-ahead.ts'

test('the next item is read while the current one is worked with, unless the current one forbids it', async () => {
  const steps: string[] = []
  const reads = readAhead(
    Readable.from([1, 2, 3]) as AsyncIterable<number>,
    (item) => {
      steps.push(`read ${item}`)
      return Promise.resolve(item)
    },
    (current) => current !== 2,
  )
  for await (const item of reads) {
    // Whatever was begun has its turn before the item is done.
    await new Promise(setImmediate)
    steps.push(`done ${item}`)
  }
  expect(steps).toStrictEqual(['read 1', 'read 2', 'done 1', 'done 2', 'read 3', 'done 3'])
})
