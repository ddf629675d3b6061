import { afterEach, describe, expect, test } from '@jest/globals'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { createMetrics } from '@sluice/runtime/metrics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { describeWithKafka, testKafka } from '../../tests/support/engines/test-engines.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { createTestStores, type TestStores } from '../../tests/support/writer.ts'
import { buildWriter } from './build.ts'

describe('a writer on a file', () => {
  describeReadiness(() => Promise.resolve(undefined))
})

describeWithKafka('a writer on Kafka', () => {
  describeReadiness(async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions: 1 })
    return url
  })
})

function describeReadiness(createLog: () => Promise<string | undefined>): void {
  let stores: TestStores | undefined
  let postgres: TestPostgres | undefined

  afterEach(async () => {
    await stores?.drop()
    await postgres?.drop()
  })

  test('is not ready before it has joined its consumer group, and stays ready when it leaves', async () => {
    stores = await createTestStores(await createLog())
    postgres = await openTestPostgres()
    const { logger } = capturedLogger()
    const engines = { ...stores, postgres }
    const { checks, components } = buildWriter(engines, { logger, metrics: createMetrics(), clock: exactClock })
    const check = async (): Promise<void> => checks.find(({ name }) => name === 'log')?.check()
    await expect(check()).rejects.toThrow('the consumer group is not joined yet')

    const abort = new AbortController()
    const consumer = components.find(({ name }) => name === 'event consumer')
    const running = consumer?.run?.(abort.signal)
    await waitUntil(
      () =>
        check().then(
          () => true,
          () => false,
        ),
      'the writer is ready',
    )
    abort.abort()
    await running
    await expect(check()).resolves.toBeUndefined()
  })
}
