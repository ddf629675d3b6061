import { expect, test } from '@jest/globals'
import { createMetrics } from '@sluice/runtime/metrics'
import { exactClock } from '../../tests/support/clock.ts'
import { writerMetrics } from './metrics.ts'

test('the times of both kinds of inserts begin at 0, so that the first insert increases a rate', async () => {
  const metrics = createMetrics()
  const log = { endOffsets: () => Promise.resolve([]) }
  writerMetrics(metrics, 'live', { log, lag: () => [], clock: exactClock })
  const text = await metrics.metrics()
  for (const kind of ['dated', 'undated'])
    expect(text).toContain(`sluice_writer_insert_seconds_count{kind="${kind}"} 0\n`)
})
