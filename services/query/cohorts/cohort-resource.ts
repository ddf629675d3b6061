import type { CohortResource } from '@sluice/contracts/cohorts'
import type { CohortRecord } from '@sluice/postgres/cohorts'

/** Converts a stored cohort to its form in responses; times are in Unix ms. */
export function toCohortResource({ cohortId, siteId, settings, createdAt, updatedAt }: CohortRecord): CohortResource {
  return {
    cohort_id: cohortId,
    site_id: siteId,
    ...settings,
    created_at: createdAt,
    updated_at: updatedAt,
  }
}
