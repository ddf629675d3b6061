import {
  type Condition,
  type Criteria,
  type EventField,
  type Filter,
  isCriteria,
  numberOf,
  numberOperators,
  propertyOf,
  type UserField,
} from '@sluice/contracts/conditions'
import type { QueryParams } from './client.ts'

/** A condition on a row of `events`, as SQL with the values of its placeholders. */
export interface ConditionSql {
  /** A UInt8 expression over the columns of `events`; those of users are written `users.<field>`. */
  sql: string
  params: QueryParams
  /**
   * The user fields that it reads: unless there are none, the statement must LEFT JOIN, on `user_id`, a table or
   * subquery named `users` with these columns as String. Without a user they are empty.
   */
  userFields: readonly UserField[]
}

/** Event fields as expressions over a row of `events`: also what groups by them use. */
export const eventFieldSql: Readonly<Record<EventField, string>> = {
  event_type: 'event_type',
  url: 'url',
  referrer: 'referrer',
  country: 'country',
  device_type: 'device_type',
  session_id: 'session_id',
  user_id: 'user_id',
  anonymous_id: 'anonymous_id',
  path: 'path(url)',
  referrer_host: 'lower(domainRFC(referrer))',
}

/**
 * The SQL of a criteria, or of a list whose members must all be met (contract section 6; semantics: section 10); no
 * condition at all is always met. Takes what criteriaSchema and filterSchema return. A criteria's `scope` is the
 * caller's to heed.
 *
 * Every placeholder's name begins with `prefix`, a word that keeps several conditions of one statement apart.
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
  readonly values: Record<string, string | number | string[]> = {}
  readonly #prefix: string

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  /** The placeholder of a value. */
  add(value: string | number | string[]): string {
    const name = `${this.#prefix}_${Object.keys(this.values).length}`
    this.values[name] = value
    const type = Array.isArray(value) ? 'Array(String)' : typeof value === 'number' ? 'Float64' : 'String'
    return `{${name}:${type}}`
  }
}

function criteriaSql({ type, conditions }: Criteria, parameters: Parameters, users: Set<UserField>): string {
  if (conditions.length === 0) return 'true'
  const parts = conditions.map((item) =>
    isCriteria(item) ? criteriaSql(item, parameters, users) : oneSql(item, parameters, users),
  )
  return `(${parts.join(type === 'and' ? ' AND ' : ' OR ')})`
}

function oneSql(condition: Condition, parameters: Parameters, users: Set<UserField>): string {
  const { operator } = condition
  const property = propertyOf(condition.property)
  if (property === undefined) throw new TypeError(`no such property: ${condition.property}`)
  const fold = property.kind === 'event' ? foldOf(property.field) : (text: string) => text
  const text = (): string => parameters.add(fold(textOf(condition)))
  const list = (): string => parameters.add(listOf(condition).map(fold))

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
      return `(${subject} != '' AND match(${subject}, ${parameters.add(textOf(condition))}))`
    case 'exists':
      return `${subject} != ''`
    case 'not_exists':
      return `${subject} = ''`
    case 'greater_than':
    case 'greater_than_or_equal':
    case 'less_than':
    case 'less_than_or_equal': {
      const number = `toFloat64OrNull(${subject})`
      const asked = parameters.add(numberIn(condition))
      return `ifNull(isFinite(${number}) AND ${number} ${numberOperators[operator]} ${asked}, false)`
    }
  }
}

/** Countries are stored in capitals, devices in small letters: values are asked for in any case. */
function foldOf(field: EventField): (text: string) => string {
  if (field === 'country') return (text) => text.toUpperCase()
  if (field === 'device_type') return (text) => text.toLowerCase()
  return (text) => text
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
