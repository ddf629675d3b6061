import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound, rateLimited, requireFound } from '@sluice/runtime/errors'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import type { AlertDeps } from './alert-deps.ts'

/**
 * POST /api/v1/alerts/:rule_id/test: hands a notification to the workers, as if the rule fired with its last value.
 * Throws 404 for a missing or hidden rule, and 429 when the site has tested its e-mail rules too often.
 */
export function testAlertRoute({ alertRules, clock }: Pick<AlertDeps, 'alertRules' | 'clock'>): Route {
  return handle(operations.testAlert, async ({ params: { rule_id: ruleId }, credential, log }) => {
    log({ rule_id: ruleId })
    const rule = requireFound(await alertRules.find(ruleId, credential.siteIds), 'Alert rule')
    const now = clock.now()
    const outcome = await retryUnknownOutcome(() => alertRules.queueTest(rule, now))
    if (outcome.state === 'deleted') throw notFound('Alert rule')
    if (outcome.state === 'limited') throw rateLimited(Math.ceil((outcome.until - now) / 1000))
    return { rule_id: ruleId, notification_type: rule.notificationType }
  })
}
