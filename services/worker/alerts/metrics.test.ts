import { expect, test } from '@jest/globals'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { createMetrics } from '@sluice/runtime/metrics'
import { addRule } from '../../../tests/support/alert-rules.ts'
import { openTestPostgres } from '../../../tests/support/test-postgres.ts'
import { addAlertLag } from './metrics.ts'

const minuteMs = 60_000

test('the lag of alert rules is 0 without rules, and grows while Postgres is unavailable', async () => {
  const postgres = await openTestPostgres()
  const rules = alertRuleStore(postgres)
  const metrics = createMetrics()
  const clock = { nowMs: Date.now() }
  let isAway = false
  const oldestEvaluated = () => (isAway ? Promise.reject(new Error('away')) : rules.oldestEvaluated())
  addAlertLag(metrics, { oldestEvaluated }, { now: () => clock.nowMs })
  const lag = async () => Number(/^sluice_worker_alert_lag_seconds (\S+)$/m.exec(await metrics.metrics())?.[1])
  try {
    expect(await lag()).toBe(0)
    await addRule(postgres, { siteId: 'shop' })
    const evaluatedAt = (await rules.oldestEvaluated()) ?? Number.NaN
    clock.nowMs = evaluatedAt + minuteMs
    expect(await lag()).toBe(60)
    isAway = true
    clock.nowMs += minuteMs
    expect(await lag()).toBe(120)
  } finally {
    await postgres.drop()
  }
})
