import type { UserField } from '@sluice/contracts/conditions'

/** An event as it is sent, without nested properties, and what is known of its user. */
export interface ConditionEvent {
  event_type?: string
  url?: string
  referrer?: string
  country?: string
  device_type?: string
  session_id?: string
  user_id?: string
  anonymous_id?: string
  /** `null` is absent, as are fields of the event that are null or empty. */
  properties?: Readonly<Record<string, unknown>>
  user?: Readonly<Partial<Record<UserField, string>>>
}

type RawValue = string | number | boolean

/** A condition or criteria as it is sent. */
export type RawCondition =
  | { property: string; operator: string; value?: RawValue | RawValue[] }
  | { type: 'and' | 'or'; conditions: RawCondition[] }

/**
 * Whether one event meets a condition or criteria, by docs/http-interface.md#conditions and without regard to speed.
 * It verifies conditionSql, so it shares no code with it. Patterns must have the same meaning in JavaScript as in RE2.
 */
export function matchesCondition(event: ConditionEvent, condition: RawCondition): boolean {
  if ('conditions' in condition) {
    return condition.type === 'and'
      ? condition.conditions.every((each) => matchesCondition(event, each))
      : condition.conditions.some((each) => matchesCondition(event, each))
  }
  const stored = valueOf(event, condition.property.toWellFormed())
  const isNegative = ['not_equals', 'not_contains', 'not_in', 'not_exists'].includes(condition.operator)
  if (stored === '') return isNegative
  const values = [condition.value].flat().map((value) => inCaseOf(condition.property, String(value).toWellFormed()))
  const [value = ''] = values
  switch (condition.operator) {
    case 'equals':
      return stored === value
    case 'not_equals':
      return stored !== value
    case 'contains':
      return stored.includes(value)
    case 'not_contains':
      return !stored.includes(value)
    case 'starts_with':
      return stored.startsWith(value)
    case 'ends_with':
      return stored.endsWith(value)
    case 'in':
      return values.includes(stored)
    case 'not_in':
      return !values.includes(stored)
    case 'greater_than':
      return numberIn(stored) > Number(value)
    case 'greater_than_or_equal':
      return numberIn(stored) >= Number(value)
    case 'less_than':
      return numberIn(stored) < Number(value)
    case 'less_than_or_equal':
      return numberIn(stored) <= Number(value)
    case 'matches':
      return new RegExp(String(condition.value), 'su').test(stored)
    case 'exists':
      return true
    case 'not_exists':
      return false
    default:
      throw new TypeError(`no rule for ${condition.operator}`)
  }
}

/** The text that is compared, or grouped by; `''` when absent. */
export function valueOf(event: ConditionEvent, property: string): string {
  if (property.startsWith('properties.')) return textOf(own(event.properties, property.slice('properties.'.length)))
  switch (property) {
    case 'country':
      return textOf(event.country).toUpperCase()
    case 'device_type':
      return textOf(event.device_type).toLowerCase()
    case 'path':
      return partsOf(event.url).path
    case 'referrer_host':
      return partsOf(event.referrer).host.toLowerCase()
    case 'email':
    case 'name':
    case 'company':
    case 'plan':
      return textOf(event.user?.[property])
    default:
      return property.startsWith('user.')
        ? textOf(own(event.user, property.slice('user.'.length)))
        : textOf(own(event, property))
  }
}

/** A property named `__proto__` or `toString` is a property like any other. */
function own(object: object | undefined, name: string): unknown {
  return object !== undefined && Object.hasOwn(object, name) ? (object as Record<string, unknown>)[name] : undefined
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function inCaseOf(property: string, value: string): string {
  const letters = /[a-z]+/gi
  if (property === 'country') return value.replaceAll(letters, (part) => part.toUpperCase())
  if (property === 'device_type' || property === 'referrer_host') {
    return value.replaceAll(letters, (part) => part.toLowerCase())
  }
  return value
}

/** NaN, which no comparison meets, for a text that is no finite decimal number. */
function numberIn(text: string): number {
  const number = /^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$/.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(number) ? number : Number.NaN
}

/**
 * The path begins at the first slash after the host. A text without `//` has no host, and its path begins at its first
 * slash.
 */
function partsOf(url = ''): { host: string; path: string } {
  const [address = ''] = url.split(/[?#]/)
  const slash = address.indexOf('/')
  const hasAuthority = slash >= 0 && address.startsWith('//', slash)
  const pathStart = hasAuthority ? address.indexOf('/', slash + 2) : slash
  const path = pathStart < 0 ? '' : address.slice(pathStart)
  if (!hasAuthority || !/^(?:[a-z][a-z0-9+.-]*:)?$/i.test(address.slice(0, slash))) return { host: '', path }
  const authority = address.slice(slash + 2, pathStart < 0 ? undefined : pathStart)
  const withPort = authority.slice(authority.lastIndexOf('@') + 1)
  const end = withPort.startsWith('[') ? withPort.indexOf(']') + 1 : withPort.search(/[:[]|$/)
  return { host: withPort.slice(0, end), path }
}
