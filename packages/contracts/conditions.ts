/** The operators, in the order of docs/http-interface.md#conditions. */
export const operators = [
  'equals',
  'not_equals',
  'contains',
  'not_contains',
  'starts_with',
  'ends_with',
  'in',
  'not_in',
  'greater_than',
  'greater_than_or_equal',
  'less_than',
  'less_than_or_equal',
  'matches',
  'exists',
  'not_exists',
] as const

export type Operator = (typeof operators)[number]

/**
 * Fields of an event that a condition may name; `path` is the path of `url`, `referrer_host` the host of `referrer`.
 */
export const eventFields = [
  'event_type',
  'url',
  'referrer',
  'country',
  'device_type',
  'session_id',
  'user_id',
  'anonymous_id',
  'path',
  'referrer_host',
] as const

export type EventField = (typeof eventFields)[number]

/** Imported fields of a user; conditions name them `user.<field>` or by the bare name. */
export const userFields = ['email', 'name', 'company', 'plan'] as const

export type UserField = (typeof userFields)[number]

/** A condition on an event (docs/http-interface.md#conditions), as the schemas of packages/api return it. */
export interface Condition {
  /** As sent: an event field, `properties.<name>`, `user.<field>` or a bare user field. `propertyOf` parses it. */
  property: string
  operator: Operator
  /**
   * A list for `in` and `not_in`, absent for `exists` and `not_exists`, a text otherwise; numbers are texts here too.
   */
  value?: string | string[]
}

/** Conditions that are combined by `and` or `or` (docs/http-interface.md#criteria). */
export interface Criteria {
  type: 'and' | 'or'
  /** Only on the outermost criteria: with `user`, each condition may be met by another event of the user. */
  scope?: 'event' | 'user'
  conditions: (Condition | Criteria)[]
}

/** Conditions that must all be met: a `filter` of stats, the `conditions` of a funnel's step. */
export type Filter = (Condition | Criteria)[]

/** Limits of a regular expression, the value of `matches`. */
export const patternLimits = {
  patternLengthMax: 512,
  /**
   * Steps of the pattern with its counted repetitions written out; a Unicode class (`\pL`) counts as 5. The time of RE2
   * is proportional to the steps. At the limit it takes up to 7 s for a million characters, and ClickHouse does not
   * check its own time limit meanwhile. RE2 itself refuses patterns of about 100,000 steps (or 400 Unicode classes).
   */
  patternStepsMax: 600,
  /**
   * Steps of all patterns of a criteria, a filter or a funnel together: each event may be compared with every pattern
   * of the statement.
   */
  patternStepsTotalMax: 4_800,
} as const

/** Limits of conditions and criteria (docs/limits.md). Lengths count code points. */
export const conditionLimits = {
  /** The outermost criteria, or the filter's list, is the first level. */
  criteriaDepthMax: 3,
  /** Conditions, including those of nested criteria. */
  conditionsMax: 20,
  valueLengthMax: 2_048,
  /** Values of `in` and `not_in`. */
  valuesMax: 1_000,
  /** All values and properties of a criteria or filter together, in bytes of UTF-8: they are sent in a URL of 1 MiB. */
  textBytesMax: 50_000,
  ...patternLimits,
} as const

/** The parsed `property` of a condition. */
export type Property =
  { kind: 'event'; field: EventField } | { kind: 'user'; field: UserField } | { kind: 'property'; name: string }

/** The prefix of the name of an event's property in a condition or a grouping. */
export const propertyPrefix = 'properties.'

/** The prefix of the name of a user's field in a condition. */
export const userPrefix = 'user.'

/** Parses a condition's `property`; undefined for a name that does not exist. */
export function propertyOf(property: string): Property | undefined {
  if (property.startsWith(propertyPrefix)) return { kind: 'property', name: property.slice(propertyPrefix.length) }
  const field = property.startsWith(userPrefix) ? property.slice(userPrefix.length) : property
  if (isOneOf(userFields, field)) return { kind: 'user', field }
  if (isOneOf(eventFields, property)) return { kind: 'event', field: property }
  return undefined
}

/** Whether an item of criteria is a group of conditions rather than a single one. */
export function isCriteria(item: Condition | Criteria): item is Criteria {
  return 'conditions' in item
}

/** The regular expressions of a condition that the schemas have accepted, each with the path of its value. */
export function patternsOf(condition: Criteria | Filter): { path: string; pattern: string }[] {
  const [items, prefix] = Array.isArray(condition) ? [condition, ''] : [condition.conditions, 'conditions.']
  return items.flatMap((item, index) => {
    const path = `${prefix}${index}`
    if (isCriteria(item)) return patternsOf(item).map((each) => ({ ...each, path: `${path}.${each.path}` }))
    return item.operator === 'matches' ? [{ path: `${path}.value`, pattern: String(item.value) }] : []
  })
}

/** Operators that compare numerically, with their sign. */
export const numberOperatorSigns = {
  greater_than: '>',
  greater_than_or_equal: '>=',
  less_than: '<',
  less_than_or_equal: '<=',
} as const satisfies Partial<Record<Operator, string>>
/** Operators that compare numbers; event fields are texts. */
export const numberOperators = Object.keys(numberOperatorSigns) as (keyof typeof numberOperatorSigns)[]

/** Decimal digits with sign, fraction and exponent; further notations of JavaScript or ClickHouse are no numbers. */
const numberPattern = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i

/** The number that a text means in comparisons; undefined for other texts and for infinite numbers. */
export function numberOf(text: string): number | undefined {
  const number = numberPattern.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(number) ? number : undefined
}

/** Whether a value is one of the texts of a list. */
export function isOneOf<T extends string>(values: readonly T[], value: unknown): value is T {
  return (values as readonly unknown[]).includes(value)
}
