declare global {
  /** ECMAScript's JSON.rawJSON and the source text of a reviver, which TypeScript's library does not know yet. */
  interface JSON {
    rawJSON(text: string): RawJson
    isRawJSON(value: unknown): value is RawJson
    parse(
      text: string,
      reviver: (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown,
    ): unknown
  }
}

/** A number as it stands in the JSON; JSON.stringify writes it as it is. */
export interface RawJson {
  readonly rawJSON: string
}

const integer = /^-?\d+$/
/** As many digits as the smallest integer has that a double can't hold. */
const manyDigits = /\d{16}/

/**
 * Parses JSON as JSON.parse does, but integers that a double can't hold become `RawJson` with all of their digits. A
 * text with so many digits in a row takes several times as long. Throws a SyntaxError.
 */
export function parseExactly(text: string): unknown {
  if (!manyDigits.test(text)) return JSON.parse(text)
  return JSON.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && integer.test(source) && !Number.isSafeInteger(value)
      ? JSON.rawJSON(source)
      : value,
  )
}
