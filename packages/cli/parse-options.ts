import { InvalidArgumentError } from 'commander'
import { Temporal } from 'temporal-polyfill'
import { unitMs } from '@sluice/runtime/durations'
import { parseExactly } from '@sluice/runtime/parse-exactly'

const durationPattern = /^(\d+)(s|m|h|d)$/

/**
 * Unix ms: 0, or at least ten digits, which they have since 12 January 1970. Fewer digits may be a year, or a date
 * without dashes.
 */
const unixMsPattern = /^(0|\d{10,16})$/
/** Without the zones in brackets, the week dates and the short forms that Temporal takes, too. */
const isoPattern = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/

/** Unix ms, or a date with or without a time of day whose time zone is not given. */
export type RangeTime = number | Temporal.PlainDateTime

/** A time: `1767225600000`, `2026-01-01T12:00:00Z`; `2026-01-01` and `2026-01-01T12:00` have no zone yet. */
export function parseRangeTime(value: string): RangeTime {
  try {
    if (unixMsPattern.test(value)) return Number(value)
    if (isoPattern.test(value)) {
      return /(Z|[+-]\d{2}:?\d{2})$/.test(value.slice('2026-01-01'.length))
        ? Temporal.Instant.from(value).epochMilliseconds
        : Temporal.PlainDateTime.from(value)
    }
  } catch {
    // A day or an hour that does not exist.
  }
  throw new InvalidArgumentError('Give Unix milliseconds, or a time like 2026-01-31 or 2026-01-31T12:00:00Z.')
}

/** A time as Unix ms. Without a zone it is UTC, so that a command means the same on every machine. */
export function parseTime(value: string): number {
  return toUnixMs(parseRangeTime(value), 'UTC')
}

/** Unix ms of `time`. A time without a zone is in `timeZone`. Throws a RangeError for an unknown zone. */
export function toUnixMs(time: RangeTime, timeZone: string): number {
  return typeof time === 'number' ? time : time.toZonedDateTime(timeZone).epochMilliseconds
}

/** `90s`, `15m`, `12h`, `7d`, in ms. */
export function parseDuration(value: string): number {
  const match = durationPattern.exec(value)
  if (!match) throw new InvalidArgumentError('Give a duration like 90s, 15m, 12h or 7d.')
  return Number(match[1]) * unitMs[match[2] as keyof typeof unitMs]
}

/** Checks a duration and returns it unchanged, because the server reads the same form. */
export function checkDuration(value: string): string {
  parseDuration(value)
  return value
}

/** A time, or a duration from now. */
export function parseTimeAhead(value: string): number {
  if (durationPattern.test(value)) return Date.now() + parseDuration(value)
  try {
    return parseTime(value)
  } catch {
    throw new InvalidArgumentError('Give a duration like 90d, or a time like 2026-01-31 or 2026-01-31T12:00:00Z.')
  }
}

/** A whole number of at least `min`. */
export function parseCount(min: number, max: number): (value: string) => number {
  return (value) => {
    const count = Number(value)
    if (!/^\d+$/.test(value) || count < min || count > max) {
      throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`)
    }
    return count
  }
}

/** A JSON list of conditions; the server checks the conditions themselves. */
export function parseFilter(value: string): string {
  try {
    if (Array.isArray(JSON.parse(value))) return value
  } catch {
    // Reported below.
  }
  throw new InvalidArgumentError(
    'Give a JSON list of conditions, like \'[{"property":"country","operator":"equals","value":"DE"}]\'.',
  )
}

/**
 * Any text but an empty one. An empty one is usually a variable of a script that is not set; without this check the
 * command would go on with a saved value, or without the option.
 */
export function parseText(value: string): string {
  if (value === '') throw new InvalidArgumentError('It is empty: give a value, or leave the option out.')
  return value
}

/**
 * Collects the values of an option that may be repeated, or hold several separated by commas. Each time, it holds at
 * least one.
 */
export function collectList(value: string, earlier: string[] = []): string[] {
  const values = value
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')
  parseText(values.join())
  return [...earlier, ...values]
}

/** Collects `name=text` and `name:=json` into an object. */
export function collectProperty(value: string, earlier: Record<string, unknown> = {}): Record<string, unknown> {
  const [, name = '', operator = '', text = ''] = /^([^=]+?)(:?=)(.*)$/s.exec(value) ?? []
  if (name === '') throw new InvalidArgumentError('Give name=text, or name:=json for numbers and booleans.')
  if (operator === '=') return { ...earlier, [name]: text }
  try {
    return { ...earlier, [name]: parseExactly(text) }
  } catch {
    throw new InvalidArgumentError(`What follows ":=" is not valid JSON: give a text as ${name}=….`)
  }
}
