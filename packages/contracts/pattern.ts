import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js'

/** Limits of a regular expression, the value of `matches`. */
export const patternLimits = {
  patternLengthMax: 512,
  /**
   * Steps of the pattern with its counted repetitions written out, Unicode classes (`\pL`) counting 5. RE2 takes time in
   * proportion to it: at the limit up to 7 s per million characters, and ClickHouse looks at its clock only once in so
   * many. RE2 itself stops at some 100,000 (or 400 Unicode classes).
   */
  patternSizeMax: 600,
} as const

/**
 * Why a pattern can't be used, to follow the field's name; undefined for a good one. The syntax is RE2's as re2js knows
 * it: ClickHouse takes and refuses the same, but for scripts that only a newer Unicode knows.
 */
export function patternProblem(pattern: string): string | undefined {
  // Before it is compiled: that would take a fifth of a second for the worst of this length.
  if (patternSize(pattern) > patternLimits.patternSizeMax) return tooHeavy
  try {
    return RE2JS.compile(pattern).programSize() > patternLimits.patternSizeMax ? tooHeavy : undefined
  } catch (error) {
    if (error instanceof RE2JSException)
      return `is no regular expression that RE2 takes: ${descriptionOf(error, pattern)}`
    throw error
  }
}

const tooHeavy = `is too heavy a regular expression: written out, its repetitions make more than ${patternLimits.patternSizeMax} steps`

/** `missing closing )`, or `invalid escape sequence \1` when it is a part that is wrong. */
function descriptionOf(error: RE2JSException, pattern: string): string {
  if (!(error instanceof RE2JSSyntaxException)) return error.message
  const { error: description, input } = error
  return input === null || input === pattern ? description : `${description} ${input}`
}

/** Quoted text, a group's start, a Unicode class, an escape, a class in brackets, a counted repetition, one character. */
const tokens =
  /\\Q.*?(?:\\E|$)|\((?:\?(?:P?<\w+>|[a-zA-Z-]*:))?|\\[pP](?:\{[^}]*\}|.)|\\x\{[^}]*\}|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|./gsu

/** At least the steps of a pattern, whether it is a good one or not. */
function patternSize(pattern: string): number {
  /** Sizes of the groups that are open, the innermost being `size`. */
  const outer: number[] = []
  let size = 0
  /** Of what a repetition would repeat. */
  let last = 0
  for (const [token, min, max] of pattern.matchAll(tokens)) {
    if (token.startsWith('(')) {
      outer.push(size)
      size = 0
    } else if (token === ')') {
      last = size + 1
      size = (outer.pop() ?? 0) + last
    } else if (token.startsWith('\\Q')) {
      last = 1
      size += token.length
    } else if (min === undefined) {
      last = 1 + 4 * (token.match(/\\p/gi)?.length ?? 0)
      size += last
    } else {
      const copies = Math.max(1, Number(min), Number(max ?? 0))
      size += last * (copies - 1)
      last *= copies
    }
  }
  return outer.reduce((sum, each) => sum + each, size)
}
