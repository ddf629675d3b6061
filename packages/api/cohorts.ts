import joi from 'joi'
import {
  cohortLimits,
  type CohortPreview,
  type CohortResource,
  type CreateCohortBody,
  type ListCohortsQuery,
  type PreviewCohortBody,
  type UpdateCohortBody,
} from '@sluice/contracts/cohorts'
import { environments } from '@sluice/contracts/scopes'
import { enumText, nameText, text } from '@sluice/runtime/schemas'
import { completeUntilSchema } from './complete-until.ts'
import { criteriaSchema } from './conditions.ts'
import { listOf, pageParameters } from './paging.ts'
import { parameterMessages } from './parameters.ts'
import { repeatedSiteId, siteId } from './sites.ts'

const name = nameText(cohortLimits.nameLengthMax).example('Paying users').description('Name of the cohort.')

const description = text(cohortLimits.descriptionLengthMax).description('Explanation for other readers.')

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
  site_id: repeatedSiteId,
  // A cohort always has a name and criteria: `null` and `""` are invalid here instead of absent.
  name: name.empty(),
  description: description.empty().allow(null, '').description('`null` removes the value.'),
  criteria: criteria.empty(),
})

export const previewCohortBody = joi.object<PreviewCohortBody>({
  site_id: siteId.required(),
  // Accepted so that a form may send the same body as for saving.
  name: text(cohortLimits.nameLengthMax).description('The field is accepted and ignored.'),
  description: text(cohortLimits.descriptionLengthMax).description('The field is accepted and ignored.'),
  criteria: criteria.required(),
  environment: enumText([...environments, 'all']).description(
    'Environment whose events are read; default: that of the key.',
  ),
})

export const listCohortsQuery = joi
  .object<ListCohortsQuery>({ site_id: siteId.required(), ...pageParameters })
  .prefs({ convert: true })
  .messages(parameterMessages)

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
export const previewResult = joi.object<CohortPreview>({
  size: joi.number().integer().required().description('Number of users that would be in the cohort.'),
  share: joi.number().required().description('Percentage of the site’s users that have events.'),
  complete_until: completeUntilSchema,
})
