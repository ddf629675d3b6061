import { expect, test } from '@jest/globals'
import type { Claim } from '@sluice/event-log/log'
import { createMetrics } from '@sluice/runtime/metrics'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { consumeClaim } from './consume-claim.ts'
import { backfillPolicy } from './lane-policy.ts'
import { writerMetrics } from './metrics.ts'
import type { BatchContext } from './process-batch.ts'

test('a claim that is lost while it waits for its turn does not hold up the others', async () => {
  const policy = backfillPolicy(() => Promise.resolve(false), exactClock)
  const running = await policy.reserve(0)
  const lost = new AbortController()
  const claim: Claim = {
    partition: 1,
    lost: lost.signal,
    async *batches({ ready } = {}) {
      await ready?.()
      yield* []
    },
    commit: () => Promise.reject(new Error('nothing was stored')),
  }
  const { signal } = new AbortController()
  const unused = () => Promise.reject(new Error('no batch was taken'))
  const context: BatchContext = {
    policy,
    logId: 'log',
    inserter: { insert: unused, findBadRows: unused },
    deadLetters: { partitions: unused, publish: unused },
    metrics: writerMetrics(createMetrics(), 'backfill', {
      log: { endOffsets: unused },
      lag: () => [],
      clock: exactClock,
    }),
    clock: exactClock,
    logger: capturedLogger().logger,
    stalledPartitions: new Map(),
  }
  const consumed = consumeClaim(claim, { requested: signal, graceExpired: signal }, context)
  let isNextReserved = false
  void policy.reserve(2).then(() => (isNextReserved = true))
  lost.abort(new Error('lost'))
  await consumed
  expect(isNextReserved).toBe(false)
  running.release()
  await new Promise(setImmediate)
  expect(isNextReserved).toBe(true)
})
