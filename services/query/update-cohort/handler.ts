import { type UpdateCohortBody, updateCohortBody } from '@sluice/contracts/cohorts'
import { notFound } from '@sluice/contracts/errors'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { toCohortResource } from '../cohort-resource.ts'

/** PUT /api/v1/cohorts/:cohort_id: fields left out keep their value. */
export function updateCohortHandler({ cohorts }: { cohorts: Pick<CohortStore, 'find' | 'update'> }) {
  return async ({ params, body, credential, log }: ApiRequest): Promise<Answer> => {
    const settings = cleared(validate(updateCohortBody, parseJson(body.bytes)))
    const { cohort_id: cohortId = '' } = params
    log({ cohort_id: cohortId })
    const isChange = Object.keys(settings).length > 0
    const record = isChange
      ? await cohorts.update(cohortId, credential.siteIds, settings)
      : await cohorts.find(cohortId, credential.siteIds)
    if (!record) throw notFound('Cohort')
    return { status: 200, data: toCohortResource(record) }
  }
}

/** An empty description is none. */
function cleared(settings: UpdateCohortBody): UpdateCohortBody {
  return settings.description === '' ? { ...settings, description: null } : settings
}
