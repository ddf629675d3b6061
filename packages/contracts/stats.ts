import joi from 'joi'
import { type Filter, filterSchema } from './conditions.ts'
import { deviceTypes, eventLimits } from './event-fields.ts'
import { propertyLimits } from './properties.ts'
import { environments, type Environment } from './scopes.ts'
import { canonicalTimeZone } from './sites.ts'
import { exceeds, text } from './validate.ts'

/** The metrics of the interface document, in its order, and ours. */
export const metrics = [
  'event_count',
  'unique_users',
  'unique_sessions',
  'avg_session_duration',
  'event_count_by_type',
  'bounce_rate',
  'conversion_rate',
  'visitors',
] as const

export type Metric = (typeof metrics)[number]

const hourMs = 3_600_000

/** Length of each period in ms. */
export const periods = { '1h': hourMs, '24h': 24 * hourMs, '7d': 7 * 24 * hourMs, '30d': 30 * 24 * hourMs } as const

export type Period = keyof typeof periods

/** Groupings by time: buckets begin when these do in the time zone, weeks on Monday. */
export const timeUnits = ['hour', 'day', 'week', 'month'] as const

export type TimeUnit = (typeof timeUnits)[number]

/** What of an event it may be grouped by. */
export const groupFields = ['device_type', 'country', 'event_type', 'url', 'path', 'referrer_host'] as const

export type GroupField = (typeof groupFields)[number]

/** A field of an event or one of its properties: what groups by value are named by. */
export type Dimension = GroupField | `properties.${string}`

export type Grouping = TimeUnit | Dimension

/** Ranges that a range can be compared with. */
export const comparisons = ['previous_period', 'previous_year'] as const

export type Comparison = (typeof comparisons)[number]

/** Fields that a parameter of their name filters events by. */
export const filterFields = ['country', 'device_type', 'event_type'] as const

export type FilterField = (typeof filterFields)[number]

/** Limits of an answer (contract section 4, and ours). */
export const statsLimits = {
  /** Buckets of one breakdown. */
  bucketsMax: 5_000,
  /** Groups by value that may be listed by name. */
  groupsMax: 1_000,
  groupsDefault: 100,
  /** Entries of one breakdown: those by type are pairs, which neither of the others bounds. */
  entriesMax: 100_000,
} as const

/** The query of GET /api/v1/stats (contract section 4), as read. */
export interface StatsParameters extends Partial<Record<FilterField, string>> {
  site_id: string
  metric: Metric
  start_date?: number
  end_date?: number
  period?: Period
  group_by?: Grouping
  timezone?: string
  target_event?: string
  compare?: Comparison
  environment?: Environment | 'all'
  filter?: Filter
  limit: number
  exact?: boolean
}

/** 2200-01-01: DateTime64 ends a century later, so that a day may be added. */
export const latestMs = Date.UTC(2200, 0, 1)

const propertyPrefix = 'properties.'
const propertyNameMax = propertyLimits.keyLengthMax

/** Which events a read sees. */
export const environmentParameter = word([...environments, 'all']).description(
  'Whose events: those of the key’s own environment unless named.',
)

/** A zone by any of its names, as it was given. */
export const timezoneParameter = parameter((value, helpers) =>
  canonicalTimeZone(value) === undefined ? helpers.error('parameter.timezone') : value,
).meta({ examples: ['Europe/Berlin'] })

/** The range of a read, open ends being now and 24 hours before. */
export const rangeParameters = {
  start_date: integer(0, latestMs, 'Unix milliseconds').description(
    'The range’s first millisecond. With it the range ends at `end_date`, or now.',
  ),
  end_date: integer(0, latestMs, 'Unix milliseconds').description(
    'The range ends before it. Without `start_date` it begins a `period`, or 24 hours, earlier.',
  ),
  period: word(Object.keys(periods))
    .example('24h')
    .description('Exactly that many hours up to now; `24h` unless there are dates, which win over it.'),
}

export const parameterMessages = {
  'object.unknown': 'is not a known parameter',
  // Parameters come as strings; one given twice comes as a list.
  'string.base': 'must be given only once',
  'parameter.integer': 'must be an integer from {{#min}} to {{#max}}{{#unit}}',
  'parameter.timezone': 'must be an IANA time zone, e.g. Europe/Berlin',
}

/** In the order of the contract's table, which decides the problem that is reported. */
export const statsQuery = joi
  .object<StatsParameters>({
    site_id: text(eventLimits.siteIdLengthMax).required().example('my-site'),
    metric: word(metrics).required().example('event_count').description('What is measured.'),
    ...rangeParameters,
    group_by: parameter((value, helpers) => {
      if ([...timeUnits, ...groupFields].includes(value as TimeUnit)) return value
      if (!value.startsWith(propertyPrefix)) return helpers.error('parameter.group_by')
      const name = value.slice(propertyPrefix.length)
      if (name === '' || exceeds(name, propertyNameMax)) return helpers.error('parameter.property')
      return name.includes('\0') ? helpers.error('string.nul') : value.toWellFormed()
    })
      .meta({ pattern: `^(${[...timeUnits, ...groupFields].join('|')}|properties\\..{1,${propertyNameMax}})$` })
      .example('day')
      .description(
        `Adds \`breakdown\`: by time (${timeUnits.join(', ')}), zero-filled, or by value (${groupFields.join(', ')}, properties.<name>).`,
      ),
    country: parameter((value, helpers) =>
      /^[a-z0-9]{2}$/i.test(value) ? value.toUpperCase() : helpers.error('parameter.country'),
    )
      .meta({ pattern: '^[A-Za-z0-9]{2}$' })
      .description('Only events of this country: 2 letters or digits.'),
    device_type: word(deviceTypes, (value) => value.toLowerCase()).description(
      'Only events of this device; upper and lower case are the same.',
    ),
    timezone: timezoneParameter.description(
      'IANA name: where hours, days, weeks and months begin. The site’s unless named, else UTC.',
    ),
    event_type: text(eventLimits.eventTypeLengthMax).description('Only events of this type.'),
    target_event: text(eventLimits.eventTypeLengthMax).description(
      'The `event_type` that `conversion_rate` counts; else the site’s `conversion_event`, else `purchase`.',
    ),
    compare: word(comparisons).description(
      'Adds the same answer over another range: the one of the same length before, or the same local dates a year before.',
    ),
    environment: environmentParameter,
    filter: filterSchema
      .meta({ type: 'string', contentMediaType: 'application/json', items: undefined })
      .example('[{"property":"properties.plan","operator":"equals","value":"pro"}]')
      .description(
        'Only events that meet all of these conditions, as cohorts have them: a JSON list of `{property, operator, value}`. For metrics of sessions: sessions that have such an event.',
      ),
    limit: integer(1, statsLimits.groupsMax)
      .default(statsLimits.groupsDefault)
      .description('Groups by value that are listed; the rest is one entry, `(other)`.'),
    exact: parameter((value, helpers) =>
      ['true', 'false'].includes(value) ? value === 'true' : helpers.error('any.only', { valids: ['true', 'false'] }),
    )
      .meta({ type: 'boolean' })
      .description('`true`: nothing is estimated, however large the answer’s sets are.'),
  })
  .messages({
    ...parameterMessages,
    'parameter.country': 'must be 2 letters or digits',
    'parameter.group_by': `must be one of: ${[...timeUnits, ...groupFields].join(', ')}, properties.<name>`,
    'parameter.property': `must name a property of 1 to ${propertyNameMax} characters after properties.`,
  })

/** One entry of `data.breakdown`: a bucket's or a group's. */
const breakdownEntry = joi
  .object({
    timestamp: joi.number().integer().required().description('The bucket’s start; for values the range’s.'),
    key: joi.string().allow('').description('The value; `""` for events without, `(other)` for the rest.'),
    ...Object.fromEntries(groupFields.map((field) => [field, joi.string().allow('')])),
    value: joi.number().required(),
  })
  .pattern(/^properties\./, joi.string().allow(''))

const breakdown = joi
  .array()
  .items(breakdownEntry)
  .description('With `group_by`, and for `event_count_by_type`, which has an entry for each pair that has events.')

/** `data` of a stats answer; all times are Unix ms. */
export const statsResult = joi
  .object({
    metric: joi
      .string()
      .valid(...metrics)
      .required(),
    value: joi
      .number()
      .required()
      .description('Of the whole range: a count, percent with 2 decimals or seconds with 3.'),
    period: joi.string().valid(...Object.keys(periods)),
    site_id: joi.string().required(),
    start_date: joi.number().integer().required(),
    end_date: joi.number().integer().required(),
    timezone: joi.string().required().description('In which days begin.'),
    group_by: joi.string(),
    breakdown,
    complete_until: joi
      .number()
      .integer()
      .required()
      .description(
        'Whatever was received until then and accepted is counted; what came later may be. 0: not known yet.',
      ),
    compare: joi
      .object({
        start_date: joi.number().integer().required(),
        end_date: joi.number().integer().required(),
        value: joi.number().required(),
        breakdown,
      })
      .description('The same over the range that it is compared with.'),
    timestamp: joi.number().integer().required(),
  })
  .id('StatsResult')

type Reader = (value: string, helpers: joi.CustomHelpers<string>) => unknown

function parameter(read: Reader): joi.StringSchema {
  return joi.string().empty('').custom(read)
}

/** One of `values`, compared after `fold`. */
export function word(values: readonly string[], fold = (value: string): string => value): joi.StringSchema {
  return parameter((value, helpers) =>
    values.includes(fold(value)) ? fold(value) : helpers.error('any.only', { valids: values }),
  ).meta({ enum: values })
}

/** Digits without sign, fraction or exponent, as a number from `min` to `max`. */
export function integer(min: number, max: number, unit = ''): joi.StringSchema {
  return parameter((value, helpers) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : -1
    if (number >= min && number <= max) return number
    return helpers.error('parameter.integer', { min, max, unit: unit === '' ? '' : ` (${unit})` })
  }).meta({ type: 'integer', minimum: min, maximum: max })
}
