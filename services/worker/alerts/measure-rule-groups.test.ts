import { expect, test } from '@jest/globals'
import { QueryTooLargeError } from '@sluice/event-store/clickhouse/errors'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import { createMetrics } from '@sluice/runtime/metrics'
import type { RuleGroup } from './group-rules.ts'
import { measureRuleGroups } from './measure-rule-groups.ts'
import { alertMetrics } from './metrics.ts'

const minuteMs = 60_000
const groups: readonly RuleGroup[] = [1, 2].map((minutes) => ({
  spec: { siteId: 'shop', environment: 'prod', metric: 'event_count', windowMs: minutes * minuteMs },
  options: { comparesPrevious: false, distinguishesNoData: false },
  rules: [],
}))

/** Measures the groups by a statement that fails with `error`: the result, and the figures of the metric. */
async function measureWith(error: Error) {
  const runner: QueryRunner = { isSharded: false, query: () => Promise.reject(error) }
  const metrics = alertMetrics(createMetrics())
  const measured = await measureRuleGroups(groups, Date.UTC(2026, 0, 2), runner, metrics)
  const { values } = await metrics.evaluations.get()
  return {
    measured,
    evaluations: Object.fromEntries(values.map(({ labels, value }) => [String(labels.result), value])),
  }
}

test.each([
  ['is too large', new QueryTooLargeError('resources')],
  ['has a defect', new TypeError('there is no spec')],
])('a statement for several groups that %s measures none of them, and is counted once', async (_reason, error) => {
  expect(await measureWith(error)).toStrictEqual({
    measured: new Map(),
    evaluations: { measured: 0, failed: 0, batch_failed: 1 },
  })
})
