import { operations } from './operations.gen.ts'
import type { Input, OperationId, StatsQuery } from './wire.ts'

/** A request to the HTTP interface, as `fetch` and curl need it. */
export interface ApiRequest {
  method: string
  /** Path with its query, from the root: `/api/v1/stats?site_id=…`. */
  path: string
  body?: unknown
}

interface AnyInput {
  params?: Record<string, string>
  query?: object
  body?: unknown
}

/** Characters of a path; the server takes 16 KiB for the path and all headers. */
const pathLengthMax = 8_000

/**
 * The request of an operation. Lists and objects in a query travel as JSON (`filter`); what is undefined is left out.
 * Statistics with a filter that is too long for a path are a batch of one query.
 */
export function requestOf<Id extends OperationId>(id: Id, input: Input<Id>): ApiRequest {
  const { params = {}, query = {}, body } = input as AnyInput
  const { method, path } = operations[id]
  const filled = path.replace(/[:{](\w+)\}?/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query) as [string, string | number | boolean | object | undefined][]) {
    if (value === undefined) continue
    search.append(name, typeof value === 'object' ? JSON.stringify(value) : `${value}`)
  }
  const text = search.toString()
  const whole = text === '' ? filled : `${filled}?${text}`
  if (id === 'stats' && whole.length > pathLengthMax) {
    return requestOf('statsBatch', { body: { queries: [query as StatsQuery] } })
  }
  return { method, path: whole, ...(body === undefined ? {} : { body }) }
}
