import {
  type Condition,
  type Criteria,
  type EventField,
  type Filter,
  isCriteria,
  numberOf,
  numberOperatorSigns,
  patternsOf,
  propertyOf,
  type UserField,
} from '@sluice/contracts/conditions'
import type { QueryParams } from './clickhouse/client.ts'
import { clickHouseCode, ClickHouseError } from './clickhouse/errors.ts'
import { parameterChunks } from './clickhouse/parameter-chunks.ts'

/** A condition on a row of `events`, as SQL with the values of its placeholders. */
export interface ConditionSql {
  /**
   * A boolean expression that is never NULL. It names columns of `events` without a qualifier, so no alias of the
   * statement may have the name of such a column.
   */
  sql: string
  params: QueryParams
  /**
   * The user fields that the expression reads, as `users.<field>`. If there are any, the statement must join them by
   * `joinUsers`. They are texts, which are empty for unknown fields and for events without a user.
   */
  userFields: readonly UserField[]
}

/** SQL of event fields, over a row of `events`, for conditions and for groups by value. */
export const eventFieldSql: Readonly<Record<EventField, string>> = {
  event_type: 'event_type',
  url: 'url',
  referrer: 'referrer',
  country: 'country',
  device_type: 'device_type',
  session_id: 'session_id',
  user_id: 'user_id',
  anonymous_id: 'anonymous_id',
  // path() would take a slash in the query string or the fragment for the path of a URL that has no path.
  path: 'path(cutFragment(cutQueryString(url)))',
  referrer_host: hostSql('referrer'),
}

/**
 * SQL of the host of a URL in lower case, without user and port. It also finds the host of `//host/path`, a URL without
 * a scheme. domainRFC() takes half the time, but does not recognise `localhost`.
 *
 * ClickHouse evaluates a function with one LowCardinality argument once for each distinct value of a block, and most
 * referrers of a block are empty or equal. The second pattern is slow because it skips the user part, but its input is
 * only the short text between `//` and the path.
 */
function hostSql(url: string): string {
  const authority = String.raw`extract(toLowCardinality(${url}), '^(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//([^/?#]*)')`
  return String.raw`lower(extract(${authority}, '^(?:[^/?#]*@)?(\\[[^\\]/?#]*\\]|[^\\[/?#:@]*)'))`
}

/**
 * Builds the SQL of a criteria, or of a list of conditions that must all be met (docs/http-interface.md#conditions). An
 * empty list is always met. The condition has the form that the schemas of packages/api return. A criteria's `scope`
 * has no effect here: the caller implements it.
 *
 * The name of every placeholder begins with `prefix`, so that one statement can hold several conditions. Throws
 * TypeError for a condition of another form.
 */
export function conditionSql(condition: Criteria | Filter, { prefix }: { prefix: string }): ConditionSql {
  if (!/^[a-z]\w*$/i.test(prefix)) throw new TypeError(`${prefix} can't begin the name of a parameter`)
  const parameters = new Parameters(prefix)
  const users = new Set<UserField>()
  const criteria: Criteria = Array.isArray(condition) ? { type: 'and', conditions: condition } : condition
  const sql = criteriaSql(criteria, parameters, users)
  return { sql, params: parameters.values, userFields: [...users] }
}

class Parameters {
  readonly values: Record<string, string | string[]> = {}
  readonly #prefix: string

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  /** Adds a value and returns its placeholder. */
  add(value: string | string[]): string {
    const name = `${this.#prefix}_${Object.keys(this.values).length}`
    this.values[name] = value
    return `{${name}:${Array.isArray(value) ? 'Array(String)' : 'String'}}`
  }

  /** Adds a list of texts, as several parameters when it is long, and returns its SQL. */
  addList(values: readonly string[]): string {
    const placeholders = parameterChunks(values).map((chunk) => this.add(chunk))
    return placeholders.length === 1 ? placeholders.join() : `arrayConcat(${placeholders.join(', ')})`
  }
}

function criteriaSql({ type, conditions }: Criteria, parameters: Parameters, users: Set<UserField>): string {
  if (conditions.length === 0) return 'true'
  const parts = conditions.map((item) =>
    isCriteria(item) ? criteriaSql(item, parameters, users) : conditionItemSql(item, parameters, users),
  )
  return `(${parts.join(type === 'and' ? ' AND ' : ' OR ')})`
}

function conditionItemSql(condition: Condition, parameters: Parameters, users: Set<UserField>): string {
  const { operator } = condition
  const property = propertyOf(condition.property)
  if (property === undefined) throw new TypeError(`no such property: ${condition.property}`)
  const fold = property.kind === 'event' ? foldOf(property.field) : (text: string) => text
  const text = (): string => parameters.add(fold(textOf(condition)))
  const list = (): string => parameters.addList(listOf(condition).map(fold))

  let subject: string
  if (property.kind === 'property') subject = `properties[${parameters.add(property.name)}]`
  else if (property.kind === 'event') subject = eventFieldSql[property.field]
  else {
    users.add(property.field)
    subject = `users.${property.field}`
  }

  switch (operator) {
    case 'equals':
      return `${subject} = ${text()}`
    case 'not_equals':
      return `${subject} != ${text()}`
    case 'contains':
      return `position(${subject}, ${text()}) > 0`
    case 'not_contains':
      return `position(${subject}, ${text()}) = 0`
    case 'starts_with':
      return `startsWith(${subject}, ${text()})`
    case 'ends_with':
      return `endsWith(${subject}, ${text()})`
    case 'in':
      return `${subject} IN ${list()}`
    case 'not_in':
      return `${subject} NOT IN ${list()}`
    case 'matches':
      return `(${subject} != '' AND match(${subject}, ${parameters.add(safePattern(textOf(condition)))}))`
    case 'exists':
      return `${subject} != ''`
    case 'not_exists':
      return `${subject} = ''`
    case 'greater_than':
    case 'greater_than_or_equal':
    case 'less_than':
    case 'less_than_or_equal': {
      const number = `toFloat64OrNull(${subject})`
      // ClickHouse does not read every parameter of type Float64 as precisely as it converts a text.
      const limit = `toFloat64(${parameters.add(String(numberIn(condition)))})`
      return `ifNull(isFinite(${number}) AND ${number} ${numberOperatorSigns[operator]} ${limit}, false)`
    }
  }
}

/**
 * Some fields are stored in one case: returns the function that converts a value to that case. It changes ASCII letters
 * only, because otherwise `ß` would become the country SS.
 */
function foldOf(field: EventField): (text: string) => string {
  if (field === 'country') return (text) => text.replace(/[a-z]+/g, (letters) => letters.toUpperCase())
  if (field === 'device_type' || field === 'referrer_host') {
    return (text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
  }
  return (text) => text
}

/**
 * A pattern in ASCII without escapes of characters by their code, of Unicode classes and of quotes, without flags,
 * without `{` beside counted repetitions, and without classes that begin with `]` or hold `[`.
 */
const plainPattern =
  /^(?:(?![\\[({])[ -~]|\\[abdfnrstvzABDSW]|\\(?!\w)[ -~]|\{\d+(?:,\d*)?\}|\((?!\?)|\[(?!\^?\])(?:(?![\\[\]{])[ -~]|\\[dswDSW]|\\(?!\w)[ -~]|\[:\^?\w+:\])+\])*$/

/**
 * ClickHouse first searches for a text that every match must contain. For patterns that are not plain it may determine
 * a wrong text, such as `abc` for `abc[[x]|b` (ClickHouse issues 106382, 117255 and 121262). The prefix `(?i:)` makes
 * ClickHouse skip that search. Plain patterns get no prefix, because RE2 alone takes three times as long: 0.3 s instead
 * of 0.1 s for a million URLs.
 */
function safePattern(pattern: string): string {
  return plainPattern.test(pattern) ? pattern : `(?i:)${pattern}`
}

function textOf({ value, operator }: Condition): string {
  if (typeof value !== 'string') throw new TypeError(`${operator} takes a text`)
  return value
}

function listOf({ value, operator }: Condition): string[] {
  if (!Array.isArray(value)) throw new TypeError(`${operator} takes a list`)
  return value
}

function numberIn(condition: Condition): number {
  const number = numberOf(textOf(condition))
  if (number === undefined) throw new TypeError(`${condition.operator} takes a number`)
  return number
}

/** The message about a pattern that ClickHouse refused; it follows the path of the pattern's field. */
export const refusedPatternReason = 'is not a regular expression that ClickHouse supports'

/**
 * If a statement with `conditionSql(condition)` failed with `error` because ClickHouse refused a pattern, returns the
 * pattern's path: `1.value` in a list, `conditions.1.value` in a criteria. Returns undefined when the statement failed
 * for another reason. ClickHouse may refuse a pattern that the schema accepted, because ClickHouse's Unicode is older.
 */
export function refusedPatternPath(error: unknown, condition: Criteria | Filter): string | undefined {
  if (!(error instanceof ClickHouseError) || error.serverCode !== clickHouseCode.cannotCompileRegexp) return undefined
  return patternsOf(condition).find(({ pattern }) => error.internal.includes(`re2: ${safePattern(pattern)},`))?.path
}
