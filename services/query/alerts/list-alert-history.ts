import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import type { AlertDeps } from './alert-deps.ts'

/**
 * GET /api/v1/alerts/:rule_id/history: transitions and tests, newest first. Throws 404 for a missing or hidden rule.
 */
export function listAlertHistoryRoute({ alertRules }: Pick<AlertDeps, 'alertRules'>): Route {
  return handle(
    operations.listAlertHistory,
    async ({ params: { rule_id: ruleId }, query, credential, receivedAt, log }) => {
      log({ rule_id: ruleId })
      requireFound(await alertRules.find(ruleId, credential.siteIds), 'Alert rule')
      const { history, total } = await alertRules.history(ruleId, query, receivedAt)
      return { history, total, ...query }
    },
  )
}
