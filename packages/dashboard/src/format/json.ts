declare global {
  /** ECMAScript's JSON.rawJSON and the source text of a reviver, which TypeScript's library does not know yet. */
  interface JSON {
    rawJSON(text: string): unknown
    parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown
  }
}

const integer = /^-?\d+$/
/** Matches every text that contains an integer beyond 2^53. */
const manyDigits = /\d{16}/

/**
 * Parses JSON; integers that a double can't hold become a `bigint` with all of their digits. Browsers that do not tell
 * a number's text round them. Throws a SyntaxError.
 */
export function parseExactly(text: string): unknown {
  if (!manyDigits.test(text)) return JSON.parse(text)
  return JSON.parse(text, (_key, value, context) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && integer.test(context?.source ?? '')
      ? BigInt(context?.source ?? '')
      : value,
  )
}

/** JSON of what `parseExactly` returned, with the digits that were in the text. */
export const jsonText = (value: unknown, indent = 0): string =>
  JSON.stringify(value, (_key, each: unknown) => (typeof each === 'bigint' ? JSON.rawJSON(String(each)) : each), indent)
