import { invalidField } from '@sluice/contracts/errors'
import { environments, type Environment } from '@sluice/contracts/scopes'
import { text, validate } from '@sluice/contracts/validate'
import joi from 'joi'
import { bucketCount, bucketsMax, hourMs, isTimeUnit, type TimeUnit } from './buckets.ts'

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

/** Length of each period in ms. */
const periods = { '1h': hourMs, '24h': 24 * hourMs, '7d': 7 * 24 * hourMs, '30d': 30 * 24 * hourMs } as const

export type Period = keyof typeof periods

const groupings = ['hour', 'day', 'device_type', 'country'] as const

const deviceTypes = ['desktop', 'mobile', 'tablet'] as const

/** What `conversion_rate` counts unless `target_event` or, from the day that sites keep one, the site says otherwise. */
const defaultTargetEvent = 'purchase'

/** A stats request, checked and resolved: nothing in it depends on the clock any more. */
export interface StatsQuestion {
  siteId: string
  metric: Metric
  /** Unix ms, inclusive. */
  start: number
  /** Unix ms, exclusive; `start < end`. */
  end: number
  /** As asked; it shaped the range unless both dates were given. */
  period?: Period
  groupBy?: TimeUnit | Dimension
  /** Values that an event must have. */
  filters: Partial<Record<Dimension, string>>
  targetEvent: string
  environment: Environment | 'all'
  /** Most groups by value that are listed by name. */
  limit: number
}

interface StatsParameters {
  site_id: string
  metric: Metric
  start_date?: number
  end_date?: number
  period?: Period
  group_by?: TimeUnit | Dimension
  country?: string
  device_type?: string
  target_event?: string
  environment?: Environment | 'all'
  limit: number
}

/** 2200-01-01: DateTime64 ends a century later, so that a day may be added. */
const latestMs = Date.UTC(2200, 0, 1)

/** In the order of the contract's table, which decides the problem that is reported. */
const schema = joi
  .object<StatsParameters>({
    site_id: text(64).required(),
    metric: word(metrics).required(),
    start_date: integer(0, latestMs, 'Unix milliseconds'),
    end_date: integer(0, latestMs, 'Unix milliseconds'),
    period: word(Object.keys(periods)),
    group_by: word(groupings),
    country: parameter((value, helpers) =>
      /^[a-z0-9]{2}$/i.test(value) ? value.toUpperCase() : helpers.error('parameter.country'),
    ),
    device_type: word(deviceTypes, (value) => value.toLowerCase()),
    target_event: text(64),
    environment: word([...environments, 'all']),
    limit: integer(1, 1000).default(100),
  })
  .messages({
    'object.unknown': 'is not a known parameter',
    // Parameters come as strings; one given twice comes as a list.
    'string.base': 'must be given only once',
    'parameter.country': 'must be 2 letters or digits',
    'parameter.integer': 'must be an integer from {{#min}} to {{#max}}{{#unit}}',
  })

/**
 * Reads the query of `GET /api/v1/stats` (contract section 4). `now` (Unix ms) is where open ranges end;
 * `environment` is the credential's, which a read sees unless it asks for another.
 * Throws the 400 for the first problem in the order of the contract's table.
 */
export function readStatsQuestion(
  query: Readonly<Record<string, string | string[]>>,
  { now, environment }: { now: number; environment: Environment },
): StatsQuestion {
  const parameters = validate(schema, query)
  const { start, end } = rangeOf(parameters, now)
  const { period, group_by: groupBy, country, device_type: deviceType } = parameters
  if (isTimeUnit(groupBy) && bucketCount(start, end, groupBy) > bucketsMax) {
    throw invalidField(
      'group_by',
      `must make at most ${bucketsMax} buckets of the range: ask for a shorter one, or for longer buckets`,
    )
  }
  return {
    siteId: parameters.site_id,
    metric: parameters.metric,
    start,
    end,
    ...(period === undefined ? {} : { period }),
    ...(groupBy === undefined ? {} : { groupBy }),
    filters: {
      ...(country === undefined ? {} : { country }),
      ...(deviceType === undefined ? {} : { device_type: deviceType }),
    },
    targetEvent: parameters.target_event ?? defaultTargetEvent,
    environment: parameters.environment ?? environment,
    limit: parameters.limit,
  }
}

/** Explicit dates win over the period; a range without an end ends now, one without a start is a period (or 24 h) long. */
function rangeOf(parameters: StatsParameters, now: number): { start: number; end: number } {
  const { start_date: startDate, end_date: endDate, period = '24h' } = parameters
  const end = endDate ?? now
  const start = startDate ?? end - periods[period]
  if (start >= end) {
    throw invalidField('start_date', endDate === undefined ? 'must be before now' : 'must be before end_date')
  }
  return { start, end }
}

type Reader = (value: string, helpers: joi.CustomHelpers<string>) => unknown

function parameter(read: Reader): joi.StringSchema {
  return joi.string().empty('').custom(read)
}

/** One of `values`, compared after `fold`. */
function word(values: readonly string[], fold = (value: string): string => value): joi.StringSchema {
  return parameter((value, helpers) =>
    values.includes(fold(value)) ? fold(value) : helpers.error('any.only', { valids: values }),
  )
}

/** Digits without sign, fraction or exponent, as a number from `min` to `max`. */
function integer(min: number, max: number, unit = ''): joi.StringSchema {
  return parameter((value, helpers) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : -1
    if (number >= min && number <= max) return number
    return helpers.error('parameter.integer', { min, max, unit: unit === '' ? '' : ` (${unit})` })
  })
}
