import joi from 'joi'
import { propertyPrefix } from '@sluice/contracts/conditions'
import { deviceTypes, eventLimits, propertyLimits } from '@sluice/contracts/event-limits'
import {
  type BreakdownEntry,
  comparisons,
  groupFields,
  metrics,
  periods,
  statsLimits,
  type StatsParameters,
  type StatsResult,
  timeUnits,
} from '@sluice/contracts/stats'
import { enumText, hasMoreCodePoints, text } from '@sluice/runtime/schemas'
import { completeUntilSchema } from './complete-until.ts'
import { filterParameter } from './conditions.ts'
import {
  environmentParameter,
  integer,
  oneOf,
  parameter,
  parameterMessages,
  rangeParameters,
  timezoneParameter,
} from './parameters.ts'
import { siteId } from './sites.ts'

const propertyNameMax = propertyLimits.keyLengthMax

const groupings: readonly string[] = [...timeUnits, ...groupFields]

/** A grouping by its name: a unit of time, a field, or a property. */
export const groupBy = parameter((value, helpers) => {
  if (groupings.includes(value)) return value
  if (!value.startsWith(propertyPrefix)) return helpers.error('parameter.group_by')
  const name = value.slice(propertyPrefix.length)
  if (name === '' || hasMoreCodePoints(name, propertyNameMax)) return helpers.error('parameter.property')
  return name.includes('\0') ? helpers.error('string.nul') : value.toWellFormed()
})
  .meta({ pattern: `^(${groupings.join('|')}|properties\\..{1,${propertyNameMax}})$` })
  .messages({
    'parameter.group_by': `must be one of: ${groupings.join(', ')}, properties.<name>`,
    'parameter.property': `must name a property of 1 to ${propertyNameMax} characters after properties.`,
  })

/** The parameters, in the order of docs/http-interface.md#stats-parameters, in which the first problem is reported. */
export const statsQuery = joi
  .object<StatsParameters>({
    site_id: siteId.required(),
    metric: oneOf(metrics).required().example('event_count').description('The metric to measure.'),
    ...rangeParameters,
    group_by: groupBy
      .example('day')
      .description(
        `Adds \`breakdown\`: either by time (${timeUnits.join(', ')}; minutes for at most ${statsLimits.minutesHoursMax} hours), where a time without events has the value 0, or by value (${groupFields.join(', ')}, properties.<name>).`,
      ),
    country: parameter((value, helpers) =>
      /^[a-z0-9]{2}$/i.test(value) ? value.toUpperCase() : helpers.error('parameter.country'),
    )
      .meta({ pattern: '^[A-Za-z0-9]{2}$' })
      .description('Counts only events of this country: 2 letters or digits.'),
    device_type: oneOf(deviceTypes, (value) => value.toLowerCase()).description(
      'Counts only events of this type of device; case does not matter.',
    ),
    timezone: timezoneParameter.description(
      'IANA name of the time zone in which minutes, hours, days, weeks and months begin; default: that of the site, or else UTC.',
    ),
    event_type: text(eventLimits.eventTypeLengthMax).description('Counts only events of this type.'),
    target_event: text(eventLimits.eventTypeLengthMax).description(
      'The `event_type` that `conversion_rate` counts; default: the site’s `conversion_event`, or else `purchase`.',
    ),
    compare: oneOf(comparisons).description(
      'Adds the same measurement for another range: the preceding range of the same length, or the same local dates one year earlier.',
    ),
    environment: environmentParameter,
    filter: filterParameter.description(
      'Counts only events that meet all of these conditions: a JSON list of `{property, operator, value}`, as in cohorts. Metrics of sessions count the sessions that have such an event.',
    ),
    limit: integer(1, statsLimits.groupsMax)
      .default(statsLimits.groupsDefault)
      .description('Number of groups by value to list. All other groups are one entry, `(other)`.'),
    offset: integer(0, statsLimits.groupsOffsetMax)
      .default(0)
      .description(
        'Number of groups by value to skip, starting with the greatest values. Skipped groups are neither listed nor part of `(other)`.',
      ),
    exact: parameter((value, helpers) =>
      ['true', 'false'].includes(value) ? value === 'true' : helpers.error('any.only', { valids: ['true', 'false'] }),
    )
      .meta({ type: 'boolean' })
      .description('`true`: every value is exact, even where a large set would otherwise be estimated.'),
  })
  .messages({
    ...parameterMessages,
    'parameter.country': 'must be 2 letters or digits',
  })

const estimated = joi
  .boolean()
  .valid(true)
  .description(
    'Present when `value` is an estimate, nearly always within 1 % of the exact value. `exact=true` prevents estimates.',
  )

/** One entry of `data.breakdown`, for a bucket or a group. */
const breakdownEntry = joi
  .object<BreakdownEntry>({
    timestamp: joi
      .number()
      .integer()
      .required()
      .description('Start of the unit of time; for groups by value, start of the range.'),
    key: joi
      .string()
      .allow('')
      .description(
        'The value of the group; `""` for events without a value, `(other)` for all groups that are not listed.',
      ),
    ...Object.fromEntries(groupFields.map((field) => [field, joi.string().allow('')])),
    value: joi.number().required(),
    estimated,
  })
  .pattern(/^properties\./, joi.string().allow(''))

const breakdown = joi
  .array()
  .items(breakdownEntry)
  .description(
    'Present with `group_by`, and for the metric `event_count_by_type`, which has an entry for each pair that has events.',
  )

/** `data` of GET /api/v1/stats; all times are Unix ms. */
export const statsResult = joi
  .object<StatsResult>({
    metric: enumText(metrics).required(),
    value: joi
      .number()
      .required()
      .description('Value for the whole range: a count, a percentage with 2 decimals, or seconds with 3 decimals.'),
    estimated,
    period: enumText(Object.keys(periods)),
    site_id: joi.string().required(),
    start_date: joi.number().integer().required(),
    end_date: joi.number().integer().required(),
    timezone: joi.string().required().description('Time zone in which days begin.'),
    group_by: joi.string(),
    breakdown,
    complete_until: completeUntilSchema,
    compare: joi
      .object({
        start_date: joi.number().integer().required(),
        end_date: joi.number().integer().required(),
        value: joi.number().required(),
        estimated,
        breakdown,
      })
      .description('The same measurement for the range of the comparison.'),
    timestamp: joi.number().integer().required(),
  })
  .id('StatsResult')
