import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { requireFound } from '@sluice/runtime/errors'
import { toCohortResource } from './cohort-resource.ts'

/** GET /api/v1/cohorts/:cohort_id: returns a cohort. Throws 404 for a missing or hidden one. */
export function getCohortRoute({ cohorts }: { cohorts: Pick<CohortStore, 'find'> }): Route {
  return handle(operations.getCohort, async ({ params: { cohort_id: cohortId }, credential, log }) => {
    log({ cohort_id: cohortId })
    const record = requireFound(await cohorts.find(cohortId, credential.siteIds), 'Cohort')
    return toCohortResource(record)
  })
}
