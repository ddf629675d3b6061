import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { postgresTime } from '@sluice/postgres/time'
import { synchronizedClock } from '@sluice/runtime/synchronized-clock'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'

/** The corrected clock of a machine whose own clock is an hour behind. */
const clock = synchronizedClock({ wall: () => Date.now() - 3_600_000, steady: () => performance.now() })
let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway({ clock })
  await clock.compare(() => postgresTime(gateway.postgres))
})

afterAll(async () => {
  await gateway.stop()
})

test('receipts, default timestamps and answers have the time of Postgres, though the machine’s clock is off', async () => {
  const before = await postgresTime(gateway.postgres)
  const { status, body } = await gateway.collect({ site_id: 'shop', event_type: 'x' })
  const after = await postgresTime(gateway.postgres)
  expect(status).toBe(202)
  const [stored] = await gateway.stored('shop', 1)
  const errorMs = clock.latest() - clock.now()
  for (const time of [stored?.row.received_at, stored?.row.timestamp, body.timestamp]) {
    expect(time).toBeGreaterThanOrEqual(before - errorMs)
    expect(time).toBeLessThanOrEqual(after + errorMs)
  }
  // The machine's own clock is an hour behind, so by that clock the timestamp would be too far in the future.
  const timestamp = Math.trunc(after) + 86_400_000 - 600_000
  expect((await gateway.collect({ site_id: 'shop', event_type: 'x', timestamp })).status).toBe(202)
})
