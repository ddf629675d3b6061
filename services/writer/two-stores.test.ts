import { afterEach, describe, expect, test } from '@jest/globals'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithKafka, testKafka } from '../../tests/support/engines/test-engines.ts'
import {
  blockOfRows,
  createTestStores,
  event,
  partitions,
  type RunningWriter,
  runWriter,
  type TestStores,
} from '../../tests/support/writer.ts'

let stores: TestStores[] = []
let writers: RunningWriter[] = []

afterEach(async () => {
  for (const writer of writers) await writer.stop()
  for (const store of stores) await store.drop()
  stores = []
  writers = []
})

describeWithKafka('with Kafka', () => {
  test('each of two stores behind one log gets every event', async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions })
    stores = [await createTestStores(url), await createTestStores(url)]
    writers = stores.map((store) => runWriter(store))
    const ids = Array.from({ length: 4 * partitions }, (_, n) => `event-${String(n).padStart(2, '0')}`)
    await stores[0]?.publish(...ids.map((id, n) => blockOfRows(n % partitions, [event(id)])))
    for (const [index, store] of stores.entries()) {
      await waitUntil(async () => (await store.stored()).length >= ids.length, `all events in store ${index + 1}`)
      expect(await store.stored()).toStrictEqual(ids)
    }
  })
})

describe('with a file', () => {
  test('each of two stores behind one log gets every event', async () => {
    const [first, second] = [await createTestStores(), await createTestStores()]
    stores = [first, second]
    writers = [runWriter(first), runWriter({ ...second, log: first.log })]
    // A file deletes the blocks that all of its groups have read: what came before a group joined may be gone.
    await waitUntil(() => writers.every(({ consumer }) => consumer.hasJoined()), 'both writers have joined')
    const ids = Array.from({ length: 4 * partitions }, (_, n) => `event-${String(n).padStart(2, '0')}`)
    await first.publish(...ids.map((id, n) => blockOfRows(n % partitions, [event(id)])))
    for (const store of stores) {
      await waitUntil(async () => (await store.stored()).length >= ids.length, 'all events in the store')
      expect(await store.stored()).toStrictEqual(ids)
    }
  })
})
