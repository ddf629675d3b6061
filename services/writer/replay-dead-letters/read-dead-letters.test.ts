import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import type { LogBatch } from '@sluice/event-log/log'
import { blockOfRows, createPlace, event, type Place, timeoutMs } from '../writer.test-support.ts'
import { readDeadLetters } from './read-dead-letters.ts'

const idleMsMax = 200

let place: Place

beforeEach(async () => {
  place = await createPlace()
  await place.deadLetters.publish([blockOfRows(0, [event('a')]), blockOfRows(1, [event('b')])], { timeoutMs })
})

afterEach(async () => {
  await place.drop()
})

const takes =
  (msOf: (partition: number) => number) =>
  async ({ partition }: LogBatch): Promise<void> => {
    // The time is what is tested: work that goes on for longer than nothing may come.
    await pause(msOf(partition))
  }

test('partitions that take longer than nothing may come are waited for, whichever ends first', async () => {
  for (const slow of [0, 1]) {
    const handle = takes((partition) => (partition === slow ? 4 * idleMsMax : 10))
    await readDeadLetters(place.deadLetters, { handle, commit: false, idleMsMax })
  }
})

test('nothing is left to run when it is done', async () => {
  const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  await readDeadLetters(place.deadLetters, { handle: takes(() => 10), commit: true, idleMsMax: 60_000 })
  expect(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length).toBeLessThanOrEqual(before)
})
