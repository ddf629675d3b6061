import type { RawEvent } from './expected-stats.ts'

export type AskedCondition =
  | { property: string; operator: string; value?: string | number | (string | number)[] }
  | { type: 'and' | 'or'; conditions: AskedCondition[] }

/** Whether an event meets a condition, in the words of contract section 6 and section 10, "Criteria". */
export function meets(event: RawEvent, condition: AskedCondition): boolean {
  if ('conditions' in condition) {
    return condition.type === 'and'
      ? condition.conditions.every((each) => meets(event, each))
      : condition.conditions.some((each) => meets(event, each))
  }
  const { property, operator } = condition
  const has = valueOf(event, property)
  const asked = [condition.value ?? []].flat().map((value) => folded(String(value), property))
  const [wanted = ''] = asked
  // An absent value satisfies the denials alone.
  if (has === '') return ['not_equals', 'not_contains', 'not_in', 'not_exists'].includes(operator)
  const compares = (compare: (a: number, b: number) => boolean): boolean =>
    /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(has) &&
    Number.isFinite(Number(has)) &&
    compare(Number(has), Number(wanted))
  switch (operator) {
    case 'equals':
      return has === wanted
    case 'not_equals':
      return has !== wanted
    case 'contains':
      return has.includes(wanted)
    case 'not_contains':
      return !has.includes(wanted)
    case 'starts_with':
      return has.startsWith(wanted)
    case 'ends_with':
      return has.endsWith(wanted)
    case 'in':
      return asked.includes(has)
    case 'not_in':
      return !asked.includes(has)
    case 'matches':
      return new RegExp(wanted, 's').test(has)
    case 'exists':
      return true
    case 'not_exists':
      return false
    case 'greater_than':
      return compares((a, b) => a > b)
    case 'greater_than_or_equal':
      return compares((a, b) => a >= b)
    case 'less_than':
      return compares((a, b) => a < b)
    case 'less_than_or_equal':
      return compares((a, b) => a <= b)
    default:
      throw new TypeError(`no rule for ${operator}`)
  }
}

/** Countries are stored in capitals, devices in small letters, and asked for in any case. */
function folded(value: string, property: string): string {
  if (property === 'country') return value.toUpperCase()
  return property === 'device_type' ? value.toLowerCase() : value
}

/** What of an event a grouping or a condition names; `''` when it has none. */
export function valueOf(event: RawEvent, name: string): string {
  if (name.startsWith('properties.')) return event.properties?.[name.slice('properties.'.length)] ?? ''
  switch (name) {
    case 'event_type':
    case 'url':
    case 'referrer':
    case 'country':
    case 'device_type':
    case 'session_id':
    case 'user_id':
    case 'anonymous_id':
      return event[name] ?? ''
    case 'path':
      return pathOf(event.url ?? '')
    case 'referrer_host':
      return hostOf(event.referrer ?? '')
    case 'email':
    case 'name':
    case 'company':
    case 'plan':
    case 'user.email':
    case 'user.plan':
      return ''
    default:
      throw new TypeError(`no rule for ${name}`)
  }
}

/** What follows the host, or the first slash, up to `?` or `#`. */
function pathOf(url: string): string {
  const [address = ''] = url.split(/[?#]/)
  const slash = address.indexOf('/')
  if (slash < 0) return ''
  if (address[slash + 1] !== '/') return address.slice(slash)
  const afterHost = address.indexOf('/', slash + 2)
  return afterHost < 0 ? '' : address.slice(afterHost)
}

function hostOf(referrer: string): string {
  return URL.canParse(referrer) ? new URL(referrer).hostname.toLowerCase() : ''
}
