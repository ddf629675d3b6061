import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { openTestPostgres, type TestPostgres } from '../support/test-postgres.ts'
import { killWorkers } from './killed-workers.ts'

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

// `npm run chaos:deliveries` does so with 10,000 deliveries and 30 kills.
test('killed workers lose no delivery, keep its id and its schedule', async () => {
  const options = { deliveries: 121, kills: 4, seed: 1, timeoutMs: 200, step: 0.15 }
  const { problems, kills, succeeded, failed, requests } = await killWorkers(postgres, options)
  expect(problems).toStrictEqual([])
  expect([kills, succeeded + failed]).toStrictEqual([4, 121])
  expect(succeeded).toBeGreaterThan(40)
  // An attempt may run out of time before its request arrives: on a busy machine there are more attempts than requests.
  expect(requests).toBeGreaterThanOrEqual(succeeded)
})
