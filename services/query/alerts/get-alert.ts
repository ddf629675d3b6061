import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import type { AlertDeps } from './alert-deps.ts'
import { toAlertResource } from './alert-resource.ts'

/** GET /api/v1/alerts/:rule_id: returns a rule. Throws 404 for a missing or hidden one. */
export function getAlertRoute({ alertRules, secrets }: Pick<AlertDeps, 'alertRules' | 'secrets'>): Route {
  return handle(operations.getAlert, async ({ params: { rule_id: ruleId }, credential, log }) => {
    log({ rule_id: ruleId })
    const rule = requireFound(await alertRules.find(ruleId, credential.siteIds), 'Alert rule')
    return toAlertResource(rule, secrets)
  })
}
