import { expect, test } from '@jest/globals'
import { erasureStore } from '@sluice/postgres/erasures'
import { createMetrics } from '@sluice/runtime/metrics'
import { openTestPostgres } from '../../../tests/support/test-postgres.ts'
import { addErasureAge } from './metrics.ts'

test('the age of erasures is that of the oldest which is not completed, and grows while Postgres is unavailable', async () => {
  const postgres = await openTestPostgres()
  const erasures = erasureStore(postgres)
  const metrics = createMetrics()
  const requestedAt = Date.now()
  const clock = { nowMs: requestedAt + 60_000 }
  let isAway = false
  const oldestUnfinished = () => (isAway ? Promise.reject(new Error('away')) : erasures.oldestUnfinished())
  addErasureAge(metrics, { oldestUnfinished }, { now: () => clock.nowMs })
  const age = async () => Number(/^sluice_worker_erasure_age_seconds (\S+)$/m.exec(await metrics.metrics())?.[1])
  const request = (erasureId: string, at: number) =>
    erasures.create({
      erasureId,
      siteId: 'shop',
      kind: 'site',
      hashes: null,
      before: null,
      requestedAt: at,
      keyId: 'k',
    })
  try {
    expect(await age()).toBe(0)
    await request('era_newer', requestedAt + 30_000)
    await request('era_older', requestedAt)
    expect(await age()).toBe(60)
    isAway = true
    clock.nowMs += 60_000
    expect(await age()).toBe(120)
    isAway = false
    const leased = await erasures.leases.take(clock.nowMs, 2)
    for (const [erasureId, expected] of [
      ['era_older', 90],
      ['era_newer', 0],
    ] as const) {
      const held = leased.find(({ id }) => id === erasureId)
      if (!held) throw new Error(`${erasureId} was not taken`)
      await erasures.complete(held, clock.nowMs)
      expect(await age()).toBe(expected)
    }
  } finally {
    await postgres.drop()
  }
})
