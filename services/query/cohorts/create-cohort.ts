import { requireWritableSite } from '@sluice/access/require-writable-site'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { newId } from '@sluice/runtime/ids'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { toCohortResource } from './cohort-resource.ts'

/**
 * POST /api/v1/cohorts: creates a cohort and registers its site (docs/http-interface.md#new-sites). Throws 409 for a
 * site that has as many as it may, and the errors of `requireWritableSite`.
 */
export function createCohortRoute({
  sites,
  cohorts,
}: {
  sites: Pick<SiteLookup, 'findOrRegister'>
  cohorts: Pick<CohortStore, 'create'>
}): Route {
  return handle(operations.createCohort, async ({ body, credential, signal, log }) => {
    const { site_id: siteId, name, description = null, criteria } = body
    log({ site_id: siteId })
    await requireWritableSite(sites, { credential, signal }, siteId)
    const cohortId = newId('coh')
    const record = await retryUnknownOutcome(() =>
      cohorts.create({ cohortId, siteId, settings: { name, description, criteria } }),
    )
    log({ cohort_id: cohortId })
    return toCohortResource(record)
  })
}
