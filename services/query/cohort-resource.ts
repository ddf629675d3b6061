import type { CohortResource } from '@sluice/contracts/cohorts'
import type { CohortRecord } from '@sluice/postgres/cohorts'

/** A cohort as the interface shows it. */
export function toCohortResource({ cohortId, siteId, settings, createdAt, updatedAt }: CohortRecord): CohortResource {
  return {
    cohort_id: cohortId,
    site_id: siteId,
    ...settings,
    created_at: createdAt.getTime(),
    updated_at: updatedAt.getTime(),
  }
}
