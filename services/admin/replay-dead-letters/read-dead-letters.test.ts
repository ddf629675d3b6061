import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import type { LogBatch } from '@sluice/event-log/log'
import { blockOfRows, createTestStores, event, type TestStores, timeoutMs } from '../../../tests/support/writer.ts'
import { readDeadLetters } from './read-dead-letters.ts'

/** A machine that others use, too, may stop a process for a second. */
const idleMsMax = 2_000

let stores: TestStores

beforeEach(async () => {
  stores = await createTestStores()
  await stores.deadLetters.publish([blockOfRows(0, [event('a')]), blockOfRows(1, [event('b')])], { timeoutMs })
})

afterEach(async () => {
  await stores.drop()
})

const slowHandler =
  (msOf: (partition: number) => number) =>
  async ({ partition }: LogBatch): Promise<void> => {
    // This test needs real time: the work takes longer than the idle limit.
    await pause(msOf(partition))
  }

test('slow partitions are awaited beyond the idle limit, whichever partition ends first', async () => {
  for (const slow of [0, 1]) {
    const handle = slowHandler((partition) => (partition === slow ? 2 * idleMsMax : 10))
    await readDeadLetters(stores.deadLetters, { handle, commit: false, positions: undefined, idleMsMax })
  }
})

test('no timer or consumer is left after the read', async () => {
  const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  await readDeadLetters(stores.deadLetters, {
    handle: slowHandler(() => 10),
    commit: true,
    positions: undefined,
    idleMsMax: 60_000,
  })
  expect(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length).toBeLessThanOrEqual(before)
})
