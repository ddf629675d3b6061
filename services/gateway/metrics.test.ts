import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startGateway, type TestGateway } from '../../tests/support/gateway.ts'

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway({ autoRegister: false })
})

afterAll(async () => {
  await gateway.stop()
})

async function rejected(): Promise<Record<string, number>> {
  const { values = [] } = (await gateway.metrics.getSingleMetric('sluice_events_rejected_total')?.get()) ?? {}
  return Object.fromEntries(values.map(({ labels, value }) => [String(labels.reason), value]))
}

test('refused events are counted by reason, alone and in batches, and by no name that a client chose', async () => {
  const none = await rejected()
  expect(Object.values(none).every((value) => value === 0)).toBe(true)
  await gateway.collect({ site_id: 'a' })
  await gateway.collect('{')
  await gateway.collectBatch({
    events: [{ site_id: 'a' }, { site_id: 'a', event_type: 7 }, { site_id: 'nowhere', event_type: 'x' }],
  })
  expect(await rejected()).toStrictEqual({
    ...none,
    missing_field: 2,
    invalid_format: 1,
    invalid_field: 1,
    not_found: 1,
  })
})

test('a log without weaknesses has no warnings', async () => {
  expect(await gateway.metrics.getSingleMetricAsString('sluice_log_durability_warnings')).toMatch(/ 0$/m)
})
