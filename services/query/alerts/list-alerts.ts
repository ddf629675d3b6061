import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { AlertDeps } from './alert-deps.ts'
import { toAlertResource } from './alert-resource.ts'

/** GET /api/v1/alerts: a site's rules, newest first. */
export function listAlertsRoute({
  sites,
  alertRules,
  secrets,
}: Pick<AlertDeps, 'alertRules' | 'secrets'> & { sites: ReadableSites }): Route {
  return handle(operations.listAlerts, async ({ query, credential, signal, log }) => {
    const { site_id: siteId, ...page } = query
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)
    const { rules, total } = await alertRules.list(siteId, page)
    return { alerts: rules.map((rule) => toAlertResource(rule, secrets)), total, ...page }
  })
}
