import type { Criteria } from './conditions.ts'
import type { Page } from './paging.ts'
import type { Environment } from './scopes.ts'

/** The settings of a cohort (docs/http-interface.md#cohort-record). */
export interface CohortSettings {
  name: string
  description: string | null
  /** Criteria of its members. */
  criteria: Criteria
}

/** POST /api/v1/cohorts. */
export interface CreateCohortBody {
  site_id: string
  name: string
  description?: string
  criteria: Criteria
}

/** PUT …/{cohort_id}: absent fields keep their value; a cohort stays on its site, whose `site_id` may be repeated. */
export interface UpdateCohortBody extends Partial<CohortSettings> {
  site_id?: string
}

/** POST /api/v1/cohorts/preview: a cohort that is not saved yet. */
export interface PreviewCohortBody extends Partial<CreateCohortBody> {
  site_id: string
  criteria: Criteria
  environment?: Environment | 'all'
}

/** `data` of POST /api/v1/cohorts/preview (docs/http-interface.md#cohort-preview). */
export interface CohortPreview {
  /** Users that the cohort would have. */
  size: number
  /** Percent of the site's users with an event, with 2 decimals. */
  share: number
  /** Every event that was received until then and accepted is counted, Unix ms. */
  complete_until: number
}

/** The validated query of GET /api/v1/cohorts. */
export interface ListCohortsQuery extends Page {
  site_id: string
}

/** Limits of a cohort; lengths count code points. */
export const cohortLimits = {
  nameLengthMax: 128,
  descriptionLengthMax: 1_024,
  cohortsPerSiteMax: 1_000,
  /** Length of an id in a path or query; any text is accepted there, and an unknown id is 404. */
  idLengthMax: 64,
} as const

/** A cohort in responses; times are Unix ms. */
export interface CohortResource extends CohortSettings {
  cohort_id: string
  site_id: string
  created_at: number
  updated_at: number
}
