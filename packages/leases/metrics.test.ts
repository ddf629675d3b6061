import { expect, test } from '@jest/globals'
import { createMetrics } from '@sluice/runtime/metrics'
import { leaseMetrics } from './metrics.ts'
import { type LeaseOptions, runLeases } from './run-leases.ts'

test('units of up to an hour are told apart', async () => {
  const metrics = createMetrics()
  const { unitSeconds } = leaseMetrics(metrics)
  for (const seconds of [301, 1_800, 3_601]) unitSeconds.observe({ kind: 'exports' }, seconds)
  const { values } = await unitSeconds.get()
  const upTo = (limit: number | string) => values.find(({ labels }) => 'le' in labels && labels.le === limit)?.value
  expect([300, 900, 3_600, '+Inf'].map(upTo)).toStrictEqual([0, 1, 2, 3])
})

test('the histograms of a kind begin at 0, so that its first unit increases a rate', async () => {
  const metrics = createMetrics()
  // Nothing else is read before the component runs.
  runLeases({ kind: 'exports', leaseMetrics: leaseMetrics(metrics) } as LeaseOptions<never>)
  const text = await metrics.metrics()
  for (const name of ['sluice_worker_job_wait_seconds', 'sluice_worker_unit_seconds'])
    expect(text).toContain(`${name}_count{kind="exports"} 0\n`)
})
