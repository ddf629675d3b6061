import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound } from '@sluice/runtime/errors'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import type { AlertDeps } from './alert-deps.ts'
import { requireVisibleAlertRule } from './require-visible-alert-rule.ts'

/**
 * POST /api/v1/alerts/:rule_id/test: hands a notification to the workers, as if the rule fired with its last value.
 * Throws 404 for a missing or hidden rule.
 */
export function testAlertRoute({ alertRules, clock }: Pick<AlertDeps, 'alertRules' | 'clock'>): Route {
  return handle(operations.testAlert, async ({ params: { rule_id: ruleId }, credential, log }) => {
    log({ rule_id: ruleId })
    const rule = await requireVisibleAlertRule(alertRules, ruleId, credential)
    const now = clock.now()
    if (!(await retryUnknownOutcome(() => alertRules.queueTest(rule, now)))) throw notFound('Alert rule')
    return { rule_id: ruleId, notification_type: rule.notificationType }
  })
}
