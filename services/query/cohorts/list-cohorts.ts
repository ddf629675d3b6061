import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { toCohortResource } from './cohort-resource.ts'

/** GET /api/v1/cohorts: a site's cohorts, newest first. */
export function listCohortsRoute({
  sites,
  cohorts,
}: {
  sites: ReadableSites
  cohorts: Pick<CohortStore, 'list'>
}): Route {
  return handle(operations.listCohorts, async ({ query, credential, signal, log }) => {
    const { site_id: siteId, ...page } = query
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)
    const { cohorts: records, total } = await cohorts.list(siteId, page)
    return { cohorts: records.map(toCohortResource), total, ...page }
  })
}
