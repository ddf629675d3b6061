import joi from 'joi'
import { environments } from '@sluice/contracts/scopes'
import { canonicalTimeZone } from '@sluice/contracts/sites'
import { latestMs, periods } from '@sluice/contracts/stats'
import { rejectSeconds } from '@sluice/runtime/schemas'

/** The environment whose events are read. */
export const environmentParameter = oneOf([...environments, 'all']).description(
  'Environment whose events are read; default: that of the key.',
)

/** A time zone by any of its names; the value stays as it was sent. */
export const timezoneParameter = parameter((value, helpers) =>
  canonicalTimeZone(value) === undefined ? helpers.error('parameter.timezone') : value,
).meta({ examples: ['Europe/Berlin'] })

/** A date as Unix milliseconds. */
export const date = rejectSeconds(integer(0, latestMs, 'Unix milliseconds'))

/** The range of a read; by default the last 24 hours. */
export const rangeParameters = {
  start_date: date.description(
    'Start of the range, Unix ms; it is included. With `start_date`, the range ends at `end_date`, or else now.',
  ),
  end_date: date.description(
    'End of the range, Unix ms; it is not included. Without `start_date`, the range begins a `period` earlier, or else 24 hours earlier.',
  ),
  period: oneOf(Object.keys(periods))
    .example('24h')
    .description(
      'Length of the range, which ends now, or at `end_date`; default: `24h`. It is ignored if `start_date` is given.',
    ),
}

export const parameterMessages = {
  'object.unknown': 'is not a known parameter',
  // Parameters come as strings; one given twice comes as a list.
  'string.base': 'must be given only once',
  'parameter.integer': 'must be an integer from {{#min}} to {{#max}}{{#unit}}',
  'parameter.timezone': 'must be an IANA time zone, e.g. Europe/Berlin',
}

type Reader = (value: string, helpers: joi.CustomHelpers<string>) => unknown

export function parameter(read: Reader): joi.StringSchema {
  return joi.string().empty('').custom(read)
}

/** One of `values`, compared after `fold`. */
export function oneOf(values: readonly string[], fold = (value: string): string => value): joi.StringSchema {
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
