import type { Condition } from '@sluice/contracts/conditions'
import { funnelLimits } from '@sluice/contracts/funnel'
import { escaped, formatCondition, parseCondition, split } from '../../state/conditions.ts'

/** A step of a funnel: an event of this type that meets all conditions. */
export interface Step {
  event_type: string
  conditions: Condition[]
}

/** Steps to be filled in, where no event types are known that could be suggested. */
export const emptySteps: readonly Step[] = Array.from({ length: funnelLimits.stepsMin }, () => ({
  event_type: '',
  conditions: [],
}))

/** Steps as a parameter of the address: `page_view>purchase;country:in:DE,FR`. */
export const formatSteps = (steps: readonly Step[]): string =>
  steps
    .map(({ event_type, conditions }) =>
      [event_type, ...conditions.map(formatCondition)].map((part) => escaped(part, ';')).join(';'),
    )
    .map((step) => escaped(step, '>'))
    .join('>')

/** Inverse of `formatSteps`; undefined for a text that is not a funnel of two to eight steps. */
export function parseSteps(text: string): Step[] | undefined {
  const steps: Step[] = []
  for (const part of split(text, '>')) {
    const [event_type = '', ...rest] = split(part, ';')
    const conditions = rest.map(parseCondition)
    if (event_type === '' || !conditions.every((each) => each !== undefined)) return undefined
    steps.push({ event_type, conditions })
  }
  return steps.length < funnelLimits.stepsMin || steps.length > funnelLimits.stepsMax ? undefined : steps
}

/**
 * Steps to begin with: the most frequent event types, at most three, the most frequent first; one type is followed by
 * itself.
 */
export function suggestedSteps(types: readonly string[]): Step[] {
  const [first, ...others] = types.slice(0, 3)
  if (first === undefined) return []
  return [first, ...(others.length === 0 ? [first] : others)].map((event_type) => ({ event_type, conditions: [] }))
}
