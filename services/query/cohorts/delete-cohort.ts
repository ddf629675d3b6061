import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { notFound } from '@sluice/runtime/errors'

/** DELETE /api/v1/cohorts/:cohort_id: deletes a cohort. Throws 404 for a missing or hidden one. */
export function deleteCohortRoute({ cohorts }: { cohorts: Pick<CohortStore, 'delete'> }): Route {
  return handle(operations.deleteCohort, async ({ params: { cohort_id: cohortId }, credential, log }) => {
    log({ cohort_id: cohortId })
    if (!(await cohorts.delete(cohortId, credential.siteIds))) throw notFound('Cohort')
  })
}
