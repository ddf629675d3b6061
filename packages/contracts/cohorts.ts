import joi from 'joi'
import { type Criteria, criteriaSchema } from './conditions.ts'
import { listOf, type Page, pageParameters } from './page.ts'
import { environments, type Environment } from './scopes.ts'
import { siteId } from './sites.ts'
import { parameterMessages } from './stats.ts'
import { text } from './validate.ts'

/** What is said of a cohort (contract section 6). */
export interface CohortSettings {
  name: string
  description: string | null
  /** Who is in it. */
  criteria: Criteria
}

/** POST /api/v1/cohorts. */
export interface CreateCohortBody {
  site_id: string
  name: string
  description?: string
  criteria: Criteria
}

/** PUT …/{cohort_id}: fields left out keep their value; a cohort stays on its site. */
export type UpdateCohortBody = Partial<CohortSettings>

/** POST /api/v1/cohorts/preview: a cohort that is not made yet. */
export interface PreviewCohortBody extends Partial<CreateCohortBody> {
  site_id: string
  criteria: Criteria
  environment?: Environment | 'all'
}

export interface ListCohortsQuery extends Page {
  site_id: string
}

export const cohortLimits = {
  nameLengthMax: 128,
  descriptionLengthMax: 1_024,
  /** Of an id, which may be any text: an unknown one is 404. */
  idLengthMax: 64,
} as const

const name = text(cohortLimits.nameLengthMax).example('Paying users').description('What you call it.')
const description = text(cohortLimits.descriptionLengthMax).description('For those who read it later.')
const criteria = criteriaSchema.example({
  type: 'and',
  conditions: [
    { property: 'event_type', operator: 'equals', value: 'purchase' },
    { property: 'properties.plan', operator: 'equals', value: 'pro' },
  ],
})

export const createCohortBody = joi.object<CreateCohortBody>({
  site_id: siteId.required(),
  name: name.required(),
  description,
  criteria: criteria.required(),
})

export const updateCohortBody = joi.object<UpdateCohortBody>({
  // A cohort has a name and criteria: none at all is a mistake here, not a field left out.
  name: name.empty(),
  description: description.empty().allow(null, '').description('`null` takes it away.'),
  criteria: criteria.empty(),
})

export const previewCohortBody = joi.object<PreviewCohortBody>({
  site_id: siteId.required(),
  // So that a form may send what it is going to save.
  name: text(cohortLimits.nameLengthMax).description('Not needed.'),
  description: text(cohortLimits.descriptionLengthMax).description('Not needed.'),
  criteria: criteria.required(),
  environment: joi
    .string()
    .valid(...environments, 'all')
    .description('Whose events: those of the key’s own environment unless named.'),
})

export const listCohortsQuery = joi
  .object<ListCohortsQuery>({ site_id: siteId.required(), ...pageParameters })
  .prefs({ convert: true })
  .messages(parameterMessages)

/** A cohort as the interface shows it; times are Unix ms. */
export interface CohortResource extends CohortSettings {
  cohort_id: string
  site_id: string
  created_at: number
  updated_at: number
}

export const cohortResource = joi
  .object<CohortResource>({
    cohort_id: joi.string().required(),
    site_id: joi.string().required(),
    name: joi.string().required(),
    description: joi.string().allow(null).required(),
    criteria: criteriaSchema.required(),
    created_at: joi.number().integer().required(),
    updated_at: joi.number().integer().required(),
  })
  .id('Cohort')

/** `data` of the list. */
export const cohortsResult = listOf('cohorts', cohortResource)

/** `data` of a preview. */
export const previewResult = joi.object({
  size: joi.number().integer().required().description('Users that would be in it.'),
  share: joi.number().required().description('Percent of the site’s users with an event.'),
})
