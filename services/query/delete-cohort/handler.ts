import { notFound } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'

/** DELETE /api/v1/cohorts/:cohort_id. */
export function deleteCohortHandler({ cohorts }: { cohorts: Pick<CohortStore, 'delete'> }) {
  return async ({ params, credential, log }: ApiRequest): Promise<Answer> => {
    const { cohort_id: cohortId = '' } = params
    log({ cohort_id: cohortId })
    if (!(await cohorts.delete(cohortId, credential.siteIds))) throw notFound('Cohort')
    return { status: 200 }
  }
}
