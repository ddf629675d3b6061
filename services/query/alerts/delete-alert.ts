import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound } from '@sluice/runtime/errors'
import type { AlertDeps } from './alert-deps.ts'

/** DELETE /api/v1/alerts/:rule_id: deletes a rule with its history. Throws 404 for a missing or hidden one. */
export function deleteAlertRoute({ alertRules }: Pick<AlertDeps, 'alertRules'>): Route {
  return handle(operations.deleteAlert, async ({ params: { rule_id: ruleId }, credential, log }) => {
    log({ rule_id: ruleId })
    if (!(await alertRules.delete(ruleId, credential.siteIds))) throw notFound('Alert rule')
  })
}
