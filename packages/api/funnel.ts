import joi from 'joi'
import { actors } from '@sluice/contracts/actors'
import { conditionLimits, patternsOf } from '@sluice/contracts/conditions'
import { eventLimits } from '@sluice/contracts/event-limits'
import { type FunnelBody, funnelLimits, type FunnelResult, type FunnelStep } from '@sluice/contracts/funnel'
import { environments } from '@sluice/contracts/scopes'
import { latestMs, periods } from '@sluice/contracts/stats'
import { boundedArray, duration, nestedObject, text, time } from '@sluice/runtime/schemas'
import { sum } from '@sluice/runtime/sum'
import { completeUntil } from './complete-until.ts'
import { filterSchema } from './conditions.ts'
import { checkPattern, patternsTooLarge } from './pattern.ts'
import { siteId } from './sites.ts'

const date = time.max(latestMs)

const step = nestedObject(
  joi.object<FunnelStep>({
    event_type: text(eventLimits.eventTypeLengthMax).required(),
    conditions: filterSchema,
  }),
)

/** The steps of all regular expressions of a funnel, whose schema has accepted each of them. */
function patternSizes(steps: readonly FunnelStep[]): number {
  const checked = steps
    .flatMap(({ conditions = [] }) => patternsOf(conditions))
    .map(({ pattern }) => checkPattern(pattern))
  return sum(checked.map((each) => ('steps' in each ? each.steps : 0)))
}

export const funnelBody = joi.object<FunnelBody>({
  site_id: siteId.required(),
  steps: boundedArray()
    .items(step)
    .min(funnelLimits.stepsMin)
    .max(funnelLimits.stepsMax)
    .required()
    // One statement compares each event with the patterns of all steps.
    .custom((steps: FunnelStep[], helpers) =>
      patternSizes(steps) > conditionLimits.patternSizesMax ? helpers.error('patterns') : steps,
    )
    .meta({
      description: `Their regular expressions have at most ${conditionLimits.patternSizesMax} steps of a pattern together.`,
    })
    .messages({
      patterns: patternsTooLarge,
      'array.base': 'must be a list of steps',
      'array.min': 'must contain at least {{#limit}} steps',
      'array.max': 'must contain at most {{#limit}} steps',
    })
    .example([
      { event_type: 'page_view', conditions: [{ property: 'path', operator: 'equals', value: '/pricing' }] },
      { event_type: 'purchase' },
    ])
    .description('Each is met by an event of its own, in this order.'),
  window: duration(funnelLimits.windowMsMax)
    .example('7d')
    .description('Greatest time between the events of the first and the last step; default: `7d`.'),
  start_date: date.description('The range’s first millisecond. With it the range ends at `end_date`, or now.'),
  end_date: date.description('The range ends before it.'),
  period: joi
    .string()
    .valid(...Object.keys(periods))
    .description('As for stats; default: `24h` up to now, ignored if `start_date` is given.'),
  environment: joi
    .string()
    .valid(...environments, 'all')
    .description('Environment to read; default: the key’s.'),
  of: joi
    .string()
    .valid(...actors)
    .description('`user`: by `user_id`, the default. `visitor`: by `user_id`, else `anonymous_id`, else `session_id`.'),
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
        users: joi.number().integer().required().description('Distinct users, or visitors, that came as far.'),
        rate_from_first: joi.number().required().description('Percent of those that met the first step.'),
        rate_from_previous: joi.number().required().description('Percent of those that met the step before.'),
      }),
    )
    .required(),
  complete_until: completeUntil,
})
