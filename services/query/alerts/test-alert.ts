import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound, requireFound } from '@sluice/runtime/errors'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import type { AlertDeps } from './alert-deps.ts'

/**
 * POST /api/v1/alerts/:rule_id/test: hands a notification to the workers, as if the rule fired with its last value.
 * Throws 404 for a missing or hidden rule.
 */
export function testAlertRoute({ alertRules, clock }: Pick<AlertDeps, 'alertRules' | 'clock'>): Route {
  return handle(operations.testAlert, async ({ params: { rule_id: ruleId }, credential, log }) => {
    log({ rule_id: ruleId })
    const rule = requireFound(await alertRules.find(ruleId, credential.siteIds), 'Alert rule')
    const now = clock.now()
    if (!(await retryUnknownOutcome(() => alertRules.queueTest(rule, now)))) throw notFound('Alert rule')
    return { rule_id: ruleId, notification_type: rule.notificationType }
  })
}
