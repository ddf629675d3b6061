import joi from 'joi'
import { actors } from '@sluice/contracts/actors'
import { conditionLimits } from '@sluice/contracts/conditions'
import { eventLimits } from '@sluice/contracts/event-limits'
import { type FunnelBody, funnelLimits, type FunnelResult, type FunnelStep } from '@sluice/contracts/funnel'
import { environments } from '@sluice/contracts/scopes'
import { latestMs, periods } from '@sluice/contracts/stats'
import { boundedArray, duration, enumText, nestedObject, text, time } from '@sluice/runtime/schemas'
import { completeUntilSchema } from './complete-until.ts'
import { filterSchema } from './conditions.ts'
import { siteId } from './sites.ts'

const date = time.max(latestMs)

const step = nestedObject(
  joi.object<FunnelStep>({
    event_type: text(eventLimits.eventTypeLengthMax).required(),
    conditions: filterSchema,
  }),
)

export const funnelBody = joi.object<FunnelBody>({
  site_id: siteId.required(),
  steps: boundedArray()
    .items(step)
    .min(funnelLimits.stepsMin)
    .max(funnelLimits.stepsMax)
    .required()
    .meta({
      description: `The regular expressions of all steps may have at most ${conditionLimits.patternStepsTotalMax} steps of a pattern together.`,
    })
    .messages({
      'array.base': 'must be a list of steps',
      'array.min': 'must contain at least {{#limit}} steps',
      'array.max': 'must contain at most {{#limit}} steps',
    })
    .example([
      { event_type: 'page_view', conditions: [{ property: 'path', operator: 'equals', value: '/pricing' }] },
      { event_type: 'purchase' },
    ])
    .description('Each step needs an event of its own. The events must be in the order of the steps.'),
  window: duration(funnelLimits.windowMsMax)
    .example('7d')
    .description('Maximum time between the event of the first step and that of the last; default: `7d`.'),
  start_date: date.description(
    'Start of the range, Unix ms; it is included. With `start_date`, the range ends at `end_date`, or else now.',
  ),
  end_date: date.description('End of the range, Unix ms; it is not included.'),
  period: enumText(Object.keys(periods)).description(
    'Length of the range, which ends now, or at `end_date`; default: `24h`. It is ignored if `start_date` is given.',
  ),
  environment: enumText([...environments, 'all']).description(
    'Environment whose events are read; default: that of the key.',
  ),
  of: enumText(actors).description(
    'Who is counted. `user`, the default: distinct values of `user_id`. `visitor`: distinct values of `user_id`, or else of `anonymous_id`, or else of `session_id`.',
  ),
})

/** `data` of POST /api/v1/funnel. */
export const funnelResult = joi.object<FunnelResult>({
  site_id: joi.string().required(),
  start_date: joi.number().integer().required(),
  end_date: joi.number().integer().required(),
  steps: joi
    .array()
    .items(
      joi.object({
        event_type: joi.string().required(),
        users: joi
          .number()
          .integer()
          .required()
          .description('Number of distinct users, or visitors, that reached this step.'),
        rate_from_first: joi.number().required().description('Percentage of those that reached the first step.'),
        rate_from_previous: joi.number().required().description('Percentage of those that reached the previous step.'),
      }),
    )
    .required(),
  complete_until: completeUntilSchema,
})
