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
import { completeUntilSchema } from './complete-until.ts'
import { date, environmentParameter, integer, oneOf, parameterMessages, timezoneParameter } from './parameters.ts'
import { siteId } from './sites.ts'

const cohortId = text(cohortLimits.idLengthMax)

const weeks = integer(1, retentionLimits.weeksMax).default(retentionLimits.weeksDefault)

export const cohortAnalysisQuery = joi
  .object<CohortAnalysisQuery>({
    site_id: siteId.required(),
    cohort_id: cohortId.required().example('coh_01KAK5V6Z0F3N8Q2R7T4W9X1YB'),
    weeks: weeks.description('Number of weeks, counted from each user’s entry. The first week is 0.'),
    environment: environmentParameter,
  })
  .messages(parameterMessages)

export const retentionQuery = joi
  .object<RetentionQuery>({
    site_id: siteId.required(),
    weeks: weeks.description('Number of calendar weeks, including the present one.'),
    cohort_id: cohortId.description(
      'Counts only users of this cohort. Their week is still that of their first event on the site.',
    ),
    return_event: text(eventLimits.eventTypeLengthMax).description(
      'Only events of this type count as coming back, also in week 0; default: events of any type.',
    ),
    mode: oneOf(retentionModes)
      .default('on')
      .description(
        'When a user counts as having come back in a week. `on`: with an event in that week. `on_or_after`: with an event in that week or a later one.',
      ),
    of: oneOf(actors)
      .default('user')
      .description(
        'Who is counted. `user`, the default: distinct values of `user_id`. `visitor`: distinct values of `user_id`, or else of `anonymous_id`, or else of `session_id`.',
      ),
    timezone: timezoneParameter.description(
      'IANA name of the time zone in which weeks begin, on Monday; default: that of the site, or else UTC.',
    ),
    end_date: date.description('Time of the evaluation, Unix ms: later events are not counted; default: now.'),
    environment: environmentParameter,
  })
  .messages(parameterMessages)

const rowFields = {
  week: joi.number().integer().required(),
  retention_rate: joi.number().required().description('Percentage with 2 decimals; 0 if no user is counted.'),
  cohort_size: joi.number().integer().required().description('Number of users that the row counts.'),
  returning_users: joi.number().integer().required().description('Number of these users that came back in this week.'),
}

const rows = joi
  .array()
  .items(
    joi.object<CompletableRow>({
      ...rowFields,
      complete: joi.boolean().required().description('True: the week is over for all users that are counted.'),
    }),
  )
  .required()

export const cohortAnalysisResult = joi.object<CohortAnalysis>({
  cohort_id: joi.string().required(),
  site_id: joi.string().required(),
  cohort_name: joi.string().required(),
  size: joi.number().integer().required().description('Number of users in the cohort.'),
  retention_by_week: rows.description(
    'Week n of a user is the 7 × 24 hours that begin n weeks after the user’s entry. A row counts the users whose week n is over. If there are none, it counts those whose week n has begun. Row 0 counts all users.',
  ),
  complete_until: completeUntilSchema,
})

export const retentionResult = joi.object<RetentionMatrix>({
  site_id: joi.string().required(),
  weeks: joi.number().integer().required(),
  timezone: joi.string().required().description('Time zone in which weeks begin.'),
  cohorts: joi
    .array()
    .items(
      joi.object({
        week_start: joi
          .number()
          .integer()
          .required()
          .description('Start of the week, Unix ms: Monday 0:00 in the time zone.'),
        size: joi.number().integer().required().description('Number of users whose first event is in this week.'),
        retention_by_week: rows.description('One row for each week up to the present one.'),
      }),
    )
    .required()
    .description('The last weeks, oldest first, including weeks without new users.'),
  average: joi
    .array()
    .items(joi.object<RetentionRow>(rowFields))
    .required()
    .description('Average of all cohorts, weighted by size. It includes only weeks that are over.'),
  complete_until: completeUntilSchema,
})
