import { type Condition, propertyOf, propertyPrefix } from '@sluice/contracts/conditions'
import { messages } from '../messages/en.ts'
import { valuesOf } from '../state/conditions.ts'
import type { Bounds, Compare, Range } from '../state/range.ts'
import { formatBounds, formatCustom } from './dates.ts'
import { texts } from './messages.ts'
import { countryName, orList } from './names.ts'

const fieldLabels = new Set(Object.entries(messages.properties).flat())

/**
 * A property as it is named to people: `country`, `plan` for `properties.plan`, and `plan (imported)` for `user.plan`.
 * A property of the event that has the name of a field keeps its prefix.
 */
export function propertyLabel(property: string): string {
  const parsed = propertyOf(property)
  if (parsed?.kind === 'user') return messages.filters.userField(parsed.field)
  if (parsed?.kind === 'property') return fieldLabels.has(parsed.name) ? `${propertyPrefix}${parsed.name}` : parsed.name
  return messages.properties[property] ?? property
}

/** A value as it is shown: countries by name, an absent value as `(none)`. */
export function valueLabel(property: string, value: string): string {
  if (value === '') return messages.filters.none
  return (property === 'country' ? countryName(value) : undefined) ?? value
}

/** A condition as the text of its chip: `country is Germany or France`. */
export function conditionLabel(condition: Condition): string {
  const { property, operator } = condition
  const label = propertyLabel(property)
  const words = messages.filters.operators
  if (operator === 'exists' || operator === 'not_exists') return `${label} ${words[operator]}`
  const values = orList(valuesOf(condition).map((value) => valueLabel(property, value)))
  const verb = operator === 'in' ? words.equals : operator === 'not_in' ? words.not_equals : words[operator]
  return `${label} ${verb} ${values}`
}

/**
 * A condition as a part of the filter sentence: `from Germany or France`, `where path starts with /blog`.
 */
function conditionPhrase(condition: Condition): string {
  const { property, operator } = condition
  const values = orList(valuesOf(condition).map((value) => valueLabel(property, value)))
  const phrases = texts.conditions
  if (property === 'country' && operator !== 'exists' && operator !== 'not_exists') {
    if (operator === 'equals' || operator === 'in') return phrases.from(values)
    if (operator === 'not_equals' || operator === 'not_in') return phrases.notFrom(values)
  }
  return phrases.where(conditionLabel(condition))
}

/** `last 28 days`, `17–20 May 2015`. */
export function rangeLabel(range: Range): string {
  return typeof range === 'object' ? formatCustom(range) : messages.bar.ranges[range].toLowerCase()
}

/** `against the 28 before`; undefined without a comparison. */
function compareLabel(compare: Compare, range: Range, compared: Bounds | undefined, zone: string): string | undefined {
  if (compared === undefined) return undefined
  if (compare === 'year') return texts.compared.weekdays
  const named = compare === 'previous' && typeof range === 'string' ? texts.compared.ranges[range] : undefined
  return named ?? texts.compared.with(formatBounds(compared, zone))
}

export interface Sentence {
  /** The counted things: `Visitors`. */
  subject: string
  filters: readonly Condition[]
  range: Range
  compare?: Compare
  compared?: Bounds | undefined
  zone: string
}

/** `Visitors from Germany or France, where path starts with /blog, last 28 days, against the 28 before`. */
export function filterSentence({ subject, filters, range, compare = 'none', compared, zone }: Sentence): string {
  const [first, ...others] = filters.map(conditionPhrase)
  const head = first === undefined ? subject : `${subject} ${first}`
  const parts = [head, ...others, rangeLabel(range), compareLabel(compare, range, compared, zone)]
  return parts.filter(Boolean).join(', ')
}
