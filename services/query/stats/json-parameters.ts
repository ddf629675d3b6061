import { invalidFormat } from '@sluice/runtime/errors'
import { isJsonObject } from '@sluice/runtime/json-object'

const numbers: ReadonlySet<string> = new Set(['start_date', 'end_date', 'limit', 'offset'])

/**
 * Converts parameters in JSON to those of a query string: dates, limits and offsets may be numbers, `exact` a boolean,
 * and null means absent. Throws 400 for a query that is no object.
 */
export function parametersOf(query: unknown): Readonly<Record<string, unknown>> {
  if (!isJsonObject(query)) throw invalidFormat('query must be a JSON object')
  const parameters = Object.create(null) as Record<string, unknown>
  for (const [name, value] of Object.entries(query)) {
    const isTyped = (typeof value === 'number' && numbers.has(name)) || (typeof value === 'boolean' && name === 'exact')
    parameters[name] = value === null ? '' : isTyped ? String(value) : value
  }
  return parameters
}
