import { environments } from '@sluice/contracts/scopes'
import { measureAlert } from '@sluice/event-store/alerts/measure-alert'
import { canBeBatched, measureBatch } from '@sluice/event-store/alerts/measure-batch'
import { ClickHouseError, isServerOutOfMemory, QueryTooLargeError } from '@sluice/event-store/clickhouse/errors'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import { refusedPatternPath, refusedPatternReason } from '@sluice/event-store/conditions'
import type { Evaluation } from '@sluice/postgres/alert-evaluations'
import { isRetryable } from '@sluice/runtime/errors'
import type { RuleGroup } from './group-rules.ts'
import type { AlertMetrics } from './metrics.ts'

/** Rule groups that one statement measures. */
const groupsPerStatementMax = 20

/** What is measured for a group. `error`: what its users read when the measurement failed. */
export type GroupMeasurement = Pick<Evaluation, 'measured' | 'error'>

/**
 * Measures a site's rule groups by one statement for each environment. The result lacks the groups whose statement
 * fails. Each of them is then to be measured by itself, so that one that is too large fails alone.
 */
export async function measureRuleGroups(
  groups: readonly RuleGroup[],
  minute: number,
  runner: QueryRunner,
  metrics: AlertMetrics,
): Promise<Map<RuleGroup, GroupMeasurement>> {
  const measured = new Map<RuleGroup, GroupMeasurement>()
  for (const environment of environments) {
    const batch = groups
      .filter(({ spec }) => spec.environment === environment && canBeBatched(spec))
      .slice(0, groupsPerStatementMax)
    if (batch.length < 2) continue
    try {
      const values = await measureBatch(batch, minute, runner)
      values.forEach((value, index) => {
        const group = batch[index]
        if (group) measured.set(group, { measured: value })
      })
      metrics.evaluations.inc({ result: 'measured' }, batch.length)
    } catch {
      // Whatever the failure is, it must not keep the other groups from being measured.
      metrics.evaluations.inc({ result: 'batch_failed' })
    }
  }
  return measured
}

/** Measures one rule group; `unanswered`: ClickHouse did not answer, and nothing is known. */
export async function measureRuleGroup(
  { spec, options }: RuleGroup,
  minute: number,
  runner: QueryRunner,
  metrics: AlertMetrics,
): Promise<GroupMeasurement | 'unanswered'> {
  try {
    const measured = await measureAlert(spec, minute, options, runner)
    metrics.evaluations.inc({ result: 'measured' })
    return { measured }
  } catch (error) {
    const text = failureText(error, spec.filter)
    if (text === undefined && isRetryable(error)) return 'unanswered'
    metrics.evaluations.inc({ result: 'failed' })
    return { measured: { outcome: 'failed' }, error: text ?? 'Internal server error' }
  }
}

/** The error that users read; undefined: the failure is not caused by their rule. */
function failureText(error: unknown, filter: Parameters<typeof refusedPatternPath>[1] = []): string | undefined {
  if (
    error instanceof QueryTooLargeError ||
    (error instanceof ClickHouseError && error.isTooLarge && !isServerOutOfMemory(error))
  ) {
    return 'The condition asks for more than one evaluation may read: choose a shorter window, or a filter with fewer events'
  }
  const path = refusedPatternPath(error, filter)
  return path === undefined ? undefined : `condition.filter.${path} ${refusedPatternReason}`
}
