import { operations } from '@sluice/api/operations'
import type { UpdateCohortBody } from '@sluice/contracts/cohorts'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { notFound } from '@sluice/runtime/errors'
import { toCohortResource } from './cohort-resource.ts'

/** PUT /api/v1/cohorts/:cohort_id: fields left out keep their value. */
export function updateCohortRoute({ cohorts }: { cohorts: Pick<CohortStore, 'find' | 'update'> }): Route {
  return handle(operations.updateCohort, async ({ params, body, credential, log }) => {
    const settings = withoutEmptyDescription(body)
    const { cohort_id: cohortId } = params
    log({ cohort_id: cohortId })
    const isChange = Object.keys(settings).length > 0
    const record = isChange
      ? await cohorts.update(cohortId, credential.siteIds, settings)
      : await cohorts.find(cohortId, credential.siteIds)
    if (!record) throw notFound('Cohort')
    return toCohortResource(record)
  })
}

/** Replaces an empty description by null, which removes it. */
function withoutEmptyDescription(settings: UpdateCohortBody): UpdateCohortBody {
  return settings.description === '' ? { ...settings, description: null } : settings
}
