import { invalidFormat } from '@sluice/contracts/errors'
import type { GivenParameters } from '../stats/parameters.ts'

const numbers: ReadonlySet<string> = new Set(['start_date', 'end_date', 'limit'])

/**
 * Parameters in JSON as they would stand in a query string: dates and limits may be numbers, `exact` a boolean, and what
 * is null is absent. Throws 400 for what is no object.
 */
export function parametersOf(query: unknown): GivenParameters {
  if (typeof query !== 'object' || query === null || Array.isArray(query)) throw invalidFormat('must be an object')
  const parameters = Object.create(null) as Record<string, unknown>
  for (const [name, value] of Object.entries(query)) {
    const isTyped = numbers.has(name) ? typeof value === 'number' : name === 'exact' && typeof value === 'boolean'
    parameters[name] = value === null ? '' : isTyped ? String(value) : value
  }
  return parameters
}
