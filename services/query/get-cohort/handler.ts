import { notFound } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { toCohortResource } from '../cohort-resource.ts'

/** GET /api/v1/cohorts/:cohort_id. */
export function getCohortHandler({ cohorts }: { cohorts: Pick<CohortStore, 'find'> }) {
  return async ({ params, credential, log }: ApiRequest): Promise<Answer> => {
    const { cohort_id: cohortId = '' } = params
    log({ cohort_id: cohortId })
    const record = await cohorts.find(cohortId, credential.siteIds)
    if (!record) throw notFound('Cohort')
    return { status: 200, data: toCohortResource(record) }
  }
}
