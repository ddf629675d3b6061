import { afterEach, describe, expect, test } from '@jest/globals'
import { readBudget } from '@sluice/event-log/consumer/read-budget'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithKafka, testKafka } from '../../tests/support/engines/test-engines.ts'
import {
  blockOfRows,
  createTestStores,
  event,
  type RunningWriter,
  runWriter,
  type TestStores,
} from '../../tests/support/writer.ts'

let stores: TestStores | undefined
let writer: RunningWriter | undefined

afterEach(async () => {
  await writer?.stop()
  await stores?.drop()
  writer = undefined
  stores = undefined
})

describe('with a file', () => {
  growingLag(() => Promise.resolve(undefined))
})

describeWithKafka('with Kafka', () => {
  growingLag(async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions: 2 })
    return url
  })
})

function growingLag(createLog: () => Promise<string | undefined>): void {
  test('the lag grows while the writer is stalled and holds all the blocks that it may', async () => {
    const place = await createTestStores(await createLog(), 2)
    stores = place
    await place.clickHouse.command('RENAME TABLE events TO events_before')
    // The first block uses the budget up, so the writer fetches no more before the block is stored.
    const running = runWriter(place, { budget: readBudget(1) })
    writer = running
    const lag = (partition: number) => running.figure('sluice_writer_lag_blocks', { partition: String(partition) })
    await place.publish(blockOfRows(0, [event('a')]))
    await waitUntil(async () => Number(await running.figure('sluice_writer_retries_total')) > 0, 'an attempt')
    expect([await lag(0), await lag(1)]).toStrictEqual([1, 0])

    for (const id of ['b', 'c']) await place.publish(blockOfRows(0, [event(id)]))
    await waitUntil(async () => (await lag(0)) === 3, 'the lag of all three')

    await place.clickHouse.command('RENAME TABLE events_before TO events')
    await waitUntil(async () => (await lag(0)) === 0, 'no lag')
    expect(await place.stored()).toStrictEqual(['a', 'b', 'c'])
    expect(await lag(1)).toBe(0)
  })

  test('the age of the oldest event is by the corrected clock, not by that of the machine', async () => {
    const place = await createTestStores(await createLog(), 2)
    stores = place
    await place.clickHouse.command('RENAME TABLE events TO events_before')
    // The log has the time of this machine, whose clock is an hour behind.
    const hourMs = 3_600_000
    const running = runWriter(place, { clock: { now: () => Date.now() + hourMs } })
    writer = running
    const age = async () => Number(await running.figure('sluice_writer_freshness_seconds', { partition: '0' }))
    await place.publish(blockOfRows(0, [event('a')]))
    await waitUntil(async () => (await age()) > 0, 'an event that waits')
    expect(await age()).toBeGreaterThanOrEqual(hourMs / 1000)
    await place.clickHouse.command('RENAME TABLE events_before TO events')
    await waitUntil(async () => (await age()) === 0, 'the event is stored')
    expect(running.lines().find(({ msg }) => msg === 'batch')?.age_ms).toBeGreaterThanOrEqual(hourMs)
  })
}
