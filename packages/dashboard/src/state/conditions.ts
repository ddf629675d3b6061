import {
  type Condition,
  isOneOf,
  numberOf,
  numberOperators,
  type Operator,
  operators,
  propertyOf,
  propertyPrefix,
} from '@sluice/contracts/conditions'

/** Operators that take a list of values. */
export const listOperators = ['in', 'not_in'] as const
/** Operators without a value. */
export const bareOperators = ['exists', 'not_exists'] as const

/** The operators that make sense for a property. */
export const operatorsOf = (property: string): readonly Operator[] =>
  propertyOf(property) === undefined || property.startsWith(propertyPrefix)
    ? operators
    : operators.filter((each) => !isOneOf(numberOperators, each))

/** Whether a text is a value that the operator takes: a number, or a regular expression. */
export function isValueOf(operator: Operator, value: string): boolean {
  if (isOneOf(numberOperators, operator)) return numberOf(value) !== undefined
  if (operator !== 'matches') return true
  try {
    return new RegExp(value) instanceof RegExp
  } catch {
    // Flags such as (?i) belong to RE2, which the service uses, and not to browsers.
    return value.includes('(?')
  }
}

/** A text with a backslash before each separator and backslash, so that `split` takes it as one part. */
export const escaped = (text: string, separator: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll(separator, `\\${separator}`)

/**
 * A list of values as the text of a form's field, which `listOf` reads: a comma within a value has a backslash before
 * it.
 */
export const listText = (values: readonly string[]): string => values.map((each) => escaped(each, ',')).join(', ')

/**
 * The values of a field for several, which commas separate; spaces around them don't count. A backslash is taken off
 * before a comma or a backslash alone, so that `C:\temp` may be typed as it is.
 */
export const listOf = (text: string): string[] =>
  split(
    text.replaceAll(/\\([\\,])?/g, (pair, next: string | undefined) => (next === undefined ? '\\\\' : pair)),
    ',',
  )
    .map((each) => each.trim())
    .filter((each) => each !== '')

/** Splits at each separator that no backslash precedes, at most `parts - 1` times, and takes the backslashes off. */
export function split(text: string, separator: string, parts = Number.POSITIVE_INFINITY): string[] {
  const found: string[] = []
  let current = ''
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at)
    if (found.length >= parts - 1) return [...found, current + text.slice(at)]
    if (character === '\\' && at + 1 < text.length) current += text.charAt(++at)
    else if (character === separator) {
      found.push(current)
      current = ''
    } else current += character
  }
  return [...found, current]
}

/** A condition as one `f` of the address: `country:in:DE,FR`, `path:starts_with:/blog`, `user_id:exists`. */
export function formatCondition({ property, operator, value }: Condition): string {
  const head = `${escaped(property, ':')}:${operator}`
  if (Array.isArray(value)) return `${head}:${value.map((each) => escaped(each, ',')).join(',')}`
  return value === undefined ? head : `${head}:${value}`
}

/** Inverse of `formatCondition`; undefined for a text that is not a condition. */
export function parseCondition(text: string): Condition | undefined {
  const [property = '', rest] = split(text, ':', 2)
  if (rest === undefined || propertyOf(property) === undefined) return undefined
  const end = rest.indexOf(':')
  const operator = end === -1 ? rest : rest.slice(0, end)
  const value = end === -1 ? undefined : rest.slice(end + 1)
  if (!isOneOf(operators, operator)) return undefined
  if (isOneOf(bareOperators, operator)) return value === undefined ? { property, operator } : undefined
  if (value === undefined || !isValueOf(operator, value)) return undefined
  return { property, operator, value: isOneOf(listOperators, operator) ? split(value, ',') : value }
}

/** How a click on a value changes the filters. */
export type FilterClick = 'is' | 'is_not' | 'add'

/** The effect of a click with the keys that are held: Alt excludes, Shift adds. */
export const clickOf = ({ altKey, shiftKey }: Pick<MouseEvent, 'altKey' | 'shiftKey'>): FilterClick =>
  altKey ? 'is_not' : shiftKey ? 'add' : 'is'

/** Whether a condition chooses values of a property, as clicks do. */
export const isChoiceOf = (property: string, condition: Condition): boolean =>
  condition.property === property && isOneOf(['equals', 'in', 'not_exists'], condition.operator)

/**
 * The filters after a click on a value of a property: `is` keeps this value alone, `is_not` excludes it, `add` takes it
 * in addition to those that are chosen. A click on the only chosen (or an excluded) value removes it. An absent value
 * (`''`) can't stand in a list: it is chosen alone, and excluded by a condition of its own.
 */
export function filtersAfterClick(
  filters: readonly Condition[],
  property: string,
  value: string,
  click: FilterClick,
): Condition[] {
  const excludes = click === 'is_not'
  const exclusions: Operator[] = value === '' ? ['exists'] : ['not_equals', 'not_in']
  const current = filters.find((each) =>
    excludes ? each.property === property && exclusions.includes(each.operator) : isChoiceOf(property, each),
  )
  const chosen = current === undefined ? [] : valuesOf(current)
  const others = filters.filter((each) => each !== current)
  if (chosen.includes(value) && (click !== 'is' || chosen.length === 1)) {
    const left = chosen.filter((each) => each !== value)
    return left.length === 0 ? others : [...others, conditionOf(property, left, excludes)]
  }
  const isAlone = click === 'is' || value === '' || chosen.includes('')
  const next = isAlone ? [value] : [...chosen, value]
  const isOpposite = (each: Condition) =>
    excludes
      ? isChoiceOf(property, each)
      : each.property === property && isOneOf(['not_equals', 'not_in', 'exists'], each.operator)
  const consistent = others.flatMap((each) => {
    if (!isOpposite(each) || !valuesOf(each).includes(value)) return [each]
    // The opposite choice of the same value would leave nothing; its other values stay.
    const left = valuesOf(each).filter((one) => one !== value)
    return left.length === 0 ? [] : [conditionOf(property, left, !excludes)]
  })
  return [...consistent, conditionOf(property, next, excludes)]
}

/** The values that a condition names; `['']` for those about absence. */
export function valuesOf({ value, operator }: Condition): string[] {
  if (isOneOf(bareOperators, operator)) return ['']
  return value === undefined ? [] : [value].flat()
}

/** The values of a property that are chosen. */
export const choiceOf = (filters: readonly Condition[], property: string): string[] =>
  filters.filter((each) => isChoiceOf(property, each)).flatMap(valuesOf)

/** A condition that a property has one of these values, or none of them; `''` alone stands for an absent value. */
export function conditionOf(property: string, values: string[], excludes: boolean): Condition {
  const [first = ''] = values
  if (values.length > 1) return { property, operator: excludes ? 'not_in' : 'in', value: values }
  if (first === '') return { property, operator: excludes ? 'exists' : 'not_exists' }
  return { property, operator: excludes ? 'not_equals' : 'equals', value: first }
}
