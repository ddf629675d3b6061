import { expect, test } from '@jest/globals'
import { createMetrics } from '@sluice/runtime/metrics'
import { leaseMetrics } from './metrics.ts'

test('units of up to an hour are told apart', async () => {
  const metrics = createMetrics()
  const { unitSeconds } = leaseMetrics(metrics)
  for (const seconds of [301, 1_800, 3_601]) unitSeconds.observe({ kind: 'exports' }, seconds)
  const { values } = await unitSeconds.get()
  const upTo = (limit: number | string) => values.find(({ labels }) => 'le' in labels && labels.le === limit)?.value
  expect([300, 900, 3_600, '+Inf'].map(upTo)).toStrictEqual([0, 1, 2, 3])
})
