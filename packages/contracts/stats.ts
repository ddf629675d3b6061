import joi from 'joi'
import { deviceTypes } from './event-fields.ts'
import { environments, type Environment } from './scopes.ts'
import { text } from './validate.ts'

/** The metrics of the interface document, in its order. */
export const metrics = [
  'event_count',
  'unique_users',
  'unique_sessions',
  'avg_session_duration',
  'event_count_by_type',
  'bounce_rate',
  'conversion_rate',
] as const

export type Metric = (typeof metrics)[number]

/** Columns of an event that groups and filters may name: the only identifiers that reach the SQL. */
export type Dimension = 'device_type' | 'country'

const hourMs = 3_600_000

/** Length of each period in ms. */
export const periods = { '1h': hourMs, '24h': 24 * hourMs, '7d': 7 * 24 * hourMs, '30d': 30 * 24 * hourMs } as const

export type Period = keyof typeof periods

export const groupings = ['hour', 'day', 'device_type', 'country'] as const

export type Grouping = (typeof groupings)[number]

/** The query of GET /api/v1/stats (contract section 4), as read. */
export interface StatsParameters {
  site_id: string
  metric: Metric
  start_date?: number
  end_date?: number
  period?: Period
  group_by?: Grouping
  country?: string
  device_type?: string
  target_event?: string
  environment?: Environment | 'all'
  limit: number
}

/** 2200-01-01: DateTime64 ends a century later, so that a day may be added. */
const latestMs = Date.UTC(2200, 0, 1)

/** In the order of the contract's table, which decides the problem that is reported. */
export const statsQuery = joi
  .object<StatsParameters>({
    site_id: text(64).required().example('my-site'),
    metric: word(metrics).required().example('event_count').description('What is measured.'),
    start_date: integer(0, latestMs, 'Unix milliseconds').description(
      'The range’s first millisecond. With it the range ends at `end_date`, or now.',
    ),
    end_date: integer(0, latestMs, 'Unix milliseconds').description(
      'The range ends before it. Without `start_date` it begins a `period`, or 24 hours, earlier.',
    ),
    period: word(Object.keys(periods))
      .example('24h')
      .description('Exactly that many hours up to now; `24h` unless there are dates, which win over it.'),
    group_by: word(groupings).description('Adds `breakdown`: by time, zero-filled, or by value.'),
    country: parameter((value, helpers) =>
      /^[a-z0-9]{2}$/i.test(value) ? value.toUpperCase() : helpers.error('parameter.country'),
    )
      .meta({ pattern: '^[A-Za-z0-9]{2}$' })
      .description('Only events of this country: 2 letters or digits.'),
    device_type: word(deviceTypes, (value) => value.toLowerCase()).description(
      'Only events of this device; upper and lower case are the same.',
    ),
    target_event: text(64).description(
      'The `event_type` that `conversion_rate` counts; else the site’s, else `purchase`.',
    ),
    environment: word([...environments, 'all']).description(
      'Whose events: those of the key’s own environment unless named.',
    ),
    limit: integer(1, 1000).default(100).description('Groups by value that are listed.'),
  })
  .messages({
    'object.unknown': 'is not a known parameter',
    // Parameters come as strings; one given twice comes as a list.
    'string.base': 'must be given only once',
    'parameter.country': 'must be 2 letters or digits',
    'parameter.integer': 'must be an integer from {{#min}} to {{#max}}{{#unit}}',
  })

/** One entry of `data.breakdown`: a bucket's or a group's. */
const breakdownEntry = joi.object({
  timestamp: joi.number().integer().required().description('The bucket’s start; for values the range’s.'),
  key: joi.string().allow('').description('The value; `""` for events without, `(other)` for the rest.'),
  country: joi.string().allow(''),
  device_type: joi.string().allow(''),
  event_type: joi.string().allow(''),
  value: joi.number().required(),
})

/** `data` of a stats answer; all times are Unix ms. */
export const statsResult = joi
  .object({
    metric: joi
      .string()
      .valid(...metrics)
      .required(),
    value: joi.number().required(),
    period: joi.string().valid(...Object.keys(periods)),
    site_id: joi.string().required(),
    start_date: joi.number().integer().required(),
    end_date: joi.number().integer().required(),
    timezone: joi.string().required().description('In which days begin.'),
    group_by: joi.string().valid(...groupings),
    breakdown: joi.array().items(breakdownEntry).description('With `group_by`, and for `event_count_by_type`.'),
    timestamp: joi.number().integer().required(),
  })
  .id('StatsResult')

type Reader = (value: string, helpers: joi.CustomHelpers<string>) => unknown

function parameter(read: Reader): joi.StringSchema {
  return joi.string().empty('').custom(read)
}

/** One of `values`, compared after `fold`. */
function word(values: readonly string[], fold = (value: string): string => value): joi.StringSchema {
  return parameter((value, helpers) =>
    values.includes(fold(value)) ? fold(value) : helpers.error('any.only', { valids: values }),
  ).meta({ enum: values })
}

/** Digits without sign, fraction or exponent, as a number from `min` to `max`. */
function integer(min: number, max: number, unit = ''): joi.StringSchema {
  return parameter((value, helpers) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : -1
    if (number >= min && number <= max) return number
    return helpers.error('parameter.integer', { min, max, unit: unit === '' ? '' : ` (${unit})` })
  }).meta({ type: 'integer', minimum: min, maximum: max })
}
