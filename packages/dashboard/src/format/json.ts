declare global {
  /** ECMAScript's JSON.rawJSON and the source text of a reviver, which TypeScript's library does not know yet. */
  interface JSON {
    rawJSON(text: string): unknown
    parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown
  }
}

/** Matches every text that contains a number that a double can't hold. */
const manyDigits = /[\d.]{16}/

/**
 * Parses JSON of the service; numbers that a double can't hold become `JSON.rawJSON` with all of their digits. Browsers that
 * do not tell a number's text round them. Throws a SyntaxError.
 */
export function parseExactly(text: string): unknown {
  if (!manyDigits.test(text)) return JSON.parse(text)
  return JSON.parse(text, (_key, value, context) => {
    const source = context?.source
    // The service writes all other numbers as JavaScript prints them.
    return typeof value === 'number' && source !== undefined && source !== String(value) ? JSON.rawJSON(source) : value
  })
}

/** Whether a value that `parseExactly` returned is a number with more digits than a double holds. */
export function isLongNumber(value: unknown): boolean {
  // Only the objects of JSON.rawJSON have no prototype; browsers without it have no JSON.isRawJSON, either.
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === null
}

/** JSON of what `parseExactly` returned, with the digits that were in the text. */
export const jsonText = (value: unknown, indent = 0): string => JSON.stringify(value, undefined, indent)
