import joi from 'joi'
import { actors } from '@sluice/contracts/actors'
import { cohortLimits } from '@sluice/contracts/cohorts'
import { eventLimits } from '@sluice/contracts/event-limits'
import {
  type CohortAnalysis,
  type CohortAnalysisQuery,
  type CompletableRow,
  retentionLimits,
  type RetentionMatrix,
  retentionModes,
  type RetentionQuery,
  type RetentionRow,
} from '@sluice/contracts/retention'
import { text } from '@sluice/runtime/schemas'
import { completeUntil } from './complete-until.ts'
import { date, environmentParameter, integer, oneOf, parameterMessages, timezoneParameter } from './parameters.ts'
import { siteId } from './sites.ts'

const cohortId = text(cohortLimits.idLengthMax)

const weeks = integer(1, retentionLimits.weeksMax).default(retentionLimits.weeksDefault)

export const cohortAnalysisQuery = joi
  .object<CohortAnalysisQuery>({
    site_id: siteId.required(),
    cohort_id: cohortId.required().example('coh_01KAK5V6Z0F3N8Q2R7T4W9X1YB'),
    weeks: weeks.description('How many weeks from each user’s entry, the first being 0.'),
    environment: environmentParameter,
  })
  .messages(parameterMessages)

export const retentionQuery = joi
  .object<RetentionQuery>({
    site_id: siteId.required(),
    weeks: weeks.description('How many calendar weeks, this one included.'),
    cohort_id: cohortId.description(
      'Only users of this cohort; their weeks stay those of their first event on the site.',
    ),
    return_event: text(eventLimits.eventTypeLengthMax).description(
      'Only events of this type count as coming back, in week 0 too; default: any event.',
    ),
    mode: oneOf(retentionModes)
      .default('on')
      .description('`on`: an event in that week. `on_or_after`: in that week or a later one.'),
    of: oneOf(actors)
      .default('user')
      .description(
        '`user`: by `user_id`, the default. `visitor`: by `user_id`, else `anonymous_id`, else `session_id`.',
      ),
    timezone: timezoneParameter.description(
      'Time zone, by its IANA name, that decides where weeks begin, on Monday; default: the site’s, else UTC.',
    ),
    end_date: date.description('Evaluates as of this time: later events don’t count; default: now.'),
    environment: environmentParameter,
  })
  .messages(parameterMessages)

const rowFields = {
  week: joi.number().integer().required(),
  retention_rate: joi.number().required().description('Percent with 2 decimals; 0 when nobody is counted.'),
  cohort_size: joi.number().integer().required().description('Users that the row counts.'),
  returning_users: joi.number().integer().required().description('Those of them that came back in this week.'),
}

const rows = joi
  .array()
  .items(
    joi.object<CompletableRow>({
      ...rowFields,
      complete: joi.boolean().required().description('The week is over for those who are counted.'),
    }),
  )
  .required()

export const cohortAnalysisResult = joi.object<CohortAnalysis>({
  cohort_id: joi.string().required(),
  site_id: joi.string().required(),
  cohort_name: joi.string().required(),
  size: joi.number().integer().required().description('Users in the cohort.'),
  retention_by_week: rows.description(
    'Week n of a user is the 7 × 24 hours from n weeks after the entry. A row counts the users whose week is over. While there are none, it counts those whose week has begun. Row 0 counts everyone.',
  ),
  complete_until: completeUntil,
})

export const retentionResult = joi.object<RetentionMatrix>({
  site_id: joi.string().required(),
  weeks: joi.number().integer().required(),
  timezone: joi.string().required().description('Time zone that decides where weeks begin.'),
  cohorts: joi
    .array()
    .items(
      joi.object({
        week_start: joi.number().integer().required().description('Monday 0:00 in the time zone, Unix ms.'),
        size: joi.number().integer().required().description('Users whose first event is of this week.'),
        retention_by_week: rows.description('A row for each week up to the present one.'),
      }),
    )
    .required()
    .description('The last weeks, oldest first, those without new users too.'),
  average: joi
    .array()
    .items(joi.object<RetentionRow>(rowFields))
    .required()
    .description('Average of all cohorts, weighted by size: weeks that are over, no others.'),
  complete_until: completeUntil,
})
