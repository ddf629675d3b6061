declare global {
  /** ECMAScript's JSON.rawJSON and the source text of a reviver, which TypeScript's library does not know yet. */
  interface JSON {
    rawJSON(text: string): unknown
    parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown
  }
}

/**
 * A number that a double can't hold, with all of its digits. The cache of answers compares plain objects member by member
 * when an answer comes again, and so would take an object of JSON.rawJSON apart.
 */
export class LongNumber {
  readonly #digits: string

  constructor(digits: string) {
    this.#digits = digits
  }

  toJSON(): unknown {
    return JSON.rawJSON(this.#digits)
  }
}

/** Matches every text that contains a number that a double can't hold. */
const manyDigits = /[\d.]{16}/

/**
 * Parses JSON of the service; numbers that a double can't hold become a `LongNumber`. Browsers that do not tell a number's
 * text round them. Throws a SyntaxError.
 */
export function parseWithLongNumbers(text: string): unknown {
  if (!manyDigits.test(text)) return JSON.parse(text)
  return JSON.parse(text, (_key, value, context) => {
    const source = context?.source
    // The service writes all other numbers as JavaScript prints them.
    return typeof value === 'number' && source !== undefined && source !== String(value)
      ? new LongNumber(source)
      : value
  })
}

/** JSON of what `parseWithLongNumbers` returned, with the digits that were in the text. */
export const jsonText = (value: unknown, indent = 0): string => JSON.stringify(value, undefined, indent)
