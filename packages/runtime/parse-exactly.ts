import { parseJson } from './parse-json.ts'
import { hasRoundedNumber, isRounded } from './rounded-numbers.ts'

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

/** A number with the text that it has in the JSON; JSON.stringify writes that text. */
export interface RawJson {
  readonly rawJSON: string
}

/**
 * Parses JSON as `parseJson` does, but numbers that a double would round (`isRounded`) become `RawJson` with all of their
 * digits. A text with such numbers takes several times as long. Throws a SyntaxError.
 */
export function parseExactly(text: string): unknown {
  if (!hasRoundedNumber(text)) return parseJson(text)
  try {
    return parseJson(text, (_key, value, { source }) =>
      typeof value === 'number' && source !== undefined && isRounded(source, value) ? JSON.rawJSON(source) : value,
    )
  } catch (error) {
    // Unlike JSON.parse alone, a reviver recurses. No event may have the thousands of levels at which it gives up.
    if (!(error instanceof RangeError)) throw error
    return parseJson(text)
  }
}

/** The double of a number whose digits `parseExactly` has kept; any other value unchanged. */
export function doubleOf(value: unknown): unknown {
  return JSON.isRawJSON(value) ? Number(value.rawJSON) : value
}
