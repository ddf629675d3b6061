import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { clockPoller } from '@sluice/runtime/clock-poller'
import { supervise } from '@sluice/runtime/supervisor'
import { synchronizedClock } from '@sluice/runtime/synchronized-clock'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { openPostgres } from './open.ts'
import { postgresTime } from './time.ts'

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

test('the time of Postgres is that of the statement', async () => {
  const before = Date.now()
  const time = await postgresTime(postgres)
  expect(time).toBeGreaterThanOrEqual(before - 1)
  expect(time).toBeLessThanOrEqual(Date.now() + 1)
})

test('a process with a wrong clock shows the time of Postgres from its start, and keeps it while Postgres is unavailable', async () => {
  const proxy = await tcpProxy(postgres.url)
  const proxied = openPostgres(proxy.url)
  const clock = synchronizedClock({ wall: () => Date.now() - 60_000, steady: () => performance.now() })
  let polls = 0
  const readTime = () =>
    postgresTime(proxied).finally(() => {
      polls++
    })
  const supervisor = supervise([clockPoller(clock, readTime, { intervalMs: 5 })], capturedLogger().logger)
  await supervisor.start()
  const expectRightTime = () => {
    expect(clock.earliest()).toBeLessThanOrEqual(Date.now() + 1)
    expect(clock.latest()).toBeGreaterThanOrEqual(Date.now() - 1)
    expect(clock.warnings()).toHaveLength(1)
  }
  expectRightTime()
  await proxy.cut()
  const enough = polls + 3
  await waitUntil(() => polls >= enough, 'it is compared in vain')
  expectRightTime()
  await supervisor.stop()
  await proxied.close()
  await proxy.close()
})
