import {
  type Condition,
  conditionLimits,
  type Criteria,
  isCriteria,
  isOneOf,
  propertyOf,
  propertyPrefix,
} from '@sluice/contracts/conditions'
import { conditionLabel } from '../../format/sentences.ts'
import { bareOperators, listOperators } from '../../state/conditions.ts'
import { texts } from './messages.ts'

export type Item = Condition | Criteria

/** Where an item stands: its index in each level, the outermost first. */
export type Path = readonly number[]

export const emptyCondition: Condition = { property: '', operator: 'equals', value: '' }
export const emptyCriteria: Criteria = { type: 'and', scope: 'event', conditions: [emptyCondition] }

/**
 * Criteria in which the item at a path became others: none removes it. A group that loses its last item goes with it.
 */
export function replaced(criteria: Criteria, path: Path, ...items: Item[]): Criteria {
  const [at, ...rest] = path
  const conditions = criteria.conditions.flatMap((each, index) => {
    if (index !== at) return [each]
    if (rest.length === 0) return items
    if (!isCriteria(each)) return [each]
    const inner = replaced(each, rest, ...items)
    return inner.conditions.length === 0 ? [] : [inner]
  })
  return { ...criteria, conditions }
}

const allConditions = (criteria: Criteria): Condition[] =>
  criteria.conditions.flatMap((each) => (isCriteria(each) ? allConditions(each) : [each]))

/** Whether another condition may be added. */
export const hasRoom = (criteria: Criteria): boolean => allConditions(criteria).length < conditionLimits.conditionsMax

/** Whether a condition has all that its operator needs. */
function isComplete({ property, operator, value }: Condition): boolean {
  if (property === '') return false
  if (isOneOf(bareOperators, operator)) return true
  if (isOneOf(listOperators, operator)) return Array.isArray(value) && value.length > 0
  return typeof value === 'string' && value !== ''
}

/**
 * The criteria as the interface takes them; undefined while a condition is not complete. A name that is neither a field
 * nor has a prefix means a property of the events.
 */
export function sentCriteria(criteria: Criteria): Criteria | undefined {
  if (criteria.conditions.length === 0 || !allConditions(criteria).every(isComplete)) return undefined
  const sent = (each: Item): Item => {
    if (isCriteria(each)) return { type: each.type, conditions: each.conditions.map(sent) }
    const { property, operator, value } = each
    const named = propertyOf(property) === undefined ? `${propertyPrefix}${property}` : property
    return isOneOf(bareOperators, operator)
      ? { property: named, operator }
      : { property: named, operator, ...(value === undefined ? {} : { value }) }
  }
  return { ...criteria, conditions: criteria.conditions.map(sent) }
}

/** A value that fits an operator, made of the one before it. */
export function valueFor(operator: Condition['operator'], value: Condition['value']): string | string[] {
  const texts = [value ?? []].flat().filter((each) => each !== '')
  return isOneOf(listOperators, operator) ? texts : (texts[0] ?? '')
}

/** Criteria as words: `in one event: plan is pro and (country is Germany or country is France)`. */
export function criteriaSentence(criteria: Criteria): string {
  const words = ({ type, conditions }: Criteria): string =>
    conditions
      .map((each) => (isCriteria(each) ? `(${words(each)})` : conditionLabel(each)))
      .join(` ${texts.joiners[type]} `)
  return `${texts.scopes[criteria.scope ?? 'event']}: ${words(criteria)}`
}

/** Reads criteria from the address; undefined for a text that holds none. */
export function parseDraft(text: string): Criteria | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isDraft(value, conditionLimits.criteriaDepthMax) ? value : undefined
  } catch {
    return undefined
  }
}

function isDraft(value: unknown, depth: number): value is Criteria {
  if (depth === 0 || typeof value !== 'object' || value === null) return false
  const { type, conditions, scope = 'event' } = value as Record<string, unknown>
  if (!isOneOf(['and', 'or'], type) || !isOneOf(['event', 'user'], scope) || !Array.isArray(conditions)) return false
  return conditions.every((each: unknown) => {
    if (typeof each !== 'object' || each === null) return false
    if ('conditions' in each) return isDraft(each, depth - 1)
    const { property, operator, value: compared = '' } = each as Record<string, unknown>
    const isValue =
      typeof compared === 'string' || (Array.isArray(compared) && compared.every((one) => typeof one === 'string'))
    return typeof property === 'string' && typeof operator === 'string' && isValue
  })
}
