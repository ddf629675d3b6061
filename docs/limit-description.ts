/** An answer's status and `error`; parts in angle brackets depend on the request. */
export interface Refusal {
  status: number
  error: string
}

/** A line of docs/limits.md. */
export interface LimitDescription {
  /** The name of the limit on the page. */
  what: string
  /** The limit with its unit, for the page. */
  value: string
  /** The refusal one beyond the limit; a text when nothing is refused. */
  beyond: Refusal | string
  /** The event's error in a batch, where it is another one. */
  inBatch?: string
}

export const hours = (ms: number): string => `${ms / 3_600_000} hours`
export const number = (value: number): string => value.toLocaleString('en')
export const refused = (status: number, error: string): Refusal => ({ status, error })

/** The limit of a text, in characters. */
export function text(field: string, max: number): LimitDescription {
  return {
    what: `\`${field}\``,
    value: `${number(max)} characters`,
    beyond: refused(400, `Invalid field: ${field} exceeds maximum length of ${max}`),
  }
}

/** The limit of a body, in bytes. */
export function body(what: string, max: number): LimitDescription {
  return { what, value: `${number(max)} bytes`, beyond: refused(413, `Request body is larger than ${max} bytes`) }
}
