import { operations } from '@sluice/api/operations'
import type { CohortSettings } from '@sluice/contracts/cohorts'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { requireFound } from '@sluice/runtime/errors'
import { requireUnchangedSite } from '../require-unchanged-site.ts'
import { toCohortResource } from './cohort-resource.ts'

/**
 * PUT /api/v1/cohorts/:cohort_id: fields left out keep their value. Throws 404 for a missing or hidden cohort, and 400
 * for another `site_id` than the cohort's.
 */
export function updateCohortRoute({ cohorts }: { cohorts: Pick<CohortStore, 'find' | 'update'> }): Route {
  return handle(operations.updateCohort, async ({ params, body, credential, log }) => {
    const { site_id: repeatedId, ...sent } = body
    const settings = withoutEmptyDescription(sent)
    const { cohort_id: cohortId } = params
    log({ cohort_id: cohortId })
    const found = requireFound(await cohorts.find(cohortId, credential.siteIds), 'Cohort')
    requireUnchangedSite(repeatedId, found.siteId)
    if (Object.keys(settings).length === 0) return toCohortResource(found)
    const record = requireFound(await cohorts.update(cohortId, credential.siteIds, settings), 'Cohort')
    return toCohortResource(record)
  })
}

/** Replaces an empty description by null, which removes it. */
function withoutEmptyDescription(settings: Partial<CohortSettings>): Partial<CohortSettings> {
  return settings.description === '' ? { ...settings, description: null } : settings
}
