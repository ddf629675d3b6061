import type { AlertRule } from '@sluice/postgres/alert-records'
import type { AlertRuleStore } from '@sluice/postgres/alert-rules'
import type { SiteIds } from '@sluice/postgres/visible-sites'
import { notFound } from '@sluice/runtime/errors'

/** Returns an alert rule that the key may see. Throws 404 for a missing or hidden one. */
export async function requireVisibleAlertRule(
  alertRules: Pick<AlertRuleStore, 'find'>,
  ruleId: string,
  { siteIds }: { siteIds: SiteIds },
): Promise<AlertRule> {
  const rule = await alertRules.find(ruleId, siteIds)
  if (!rule) throw notFound('Alert rule')
  return rule
}
