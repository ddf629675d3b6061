import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js'
import { patternLimits } from '@sluice/contracts/conditions'
import { sum } from '@sluice/runtime/sum'

/**
 * Returns the steps of a pattern, or the reason why it can't be used, as text that follows the name of the field. The
 * steps are those of the compiled pattern, or those that compiling it takes, whichever are more. The syntax is that of
 * RE2 as implemented by re2js: ClickHouse accepts the same patterns, except for Unicode scripts that only one of the
 * two Unicode versions has.
 */
export function checkPattern(pattern: string): { steps: number } | { problem: string } {
  // Checked before the pattern is compiled, which takes up to 200 ms for patterns of this length.
  const size = patternSize(pattern)
  if (size > patternLimits.patternStepsMax) return { problem: patternTooLarge }
  try {
    const steps = Math.max(Math.ceil(size), RE2JS.compile(pattern).programSize())
    return steps > patternLimits.patternStepsMax ? { problem: patternTooLarge } : { steps }
  } catch (error) {
    if (error instanceof RE2JSException)
      return { problem: `is not a regular expression that RE2 supports: ${descriptionOf(error, pattern)}` }
    throw error
  }
}

/** The end of the message of a criteria, filter or funnel whose patterns have too many steps together. */
export const patternsTooLarge = `must not hold regular expressions of more than ${patternLimits.patternStepsTotalMax} steps together, their repetitions and ranges written out`

const patternTooLarge = `is too heavy a regular expression: its repetitions and ranges, written out, make more than ${patternLimits.patternStepsMax} steps`

/** The description of a syntax error, followed by the wrong part of the pattern if re2js reports only a part of it. */
function descriptionOf(error: RE2JSException, pattern: string): string {
  if (!(error instanceof RE2JSSyntaxException)) return error.message
  const { error: description, input } = error
  return input === null || input === pattern ? description : `${description} ${input}`
}

/**
 * Tokens of a pattern: quoted text, start of a group, Unicode class, escape, class in brackets, counted repetition, any
 * other character.
 */
const tokens =
  /\\Q.*?(?:\\E|$)|\((?:\?(?:P?<\w+>|[a-zA-Z-]*:))?|\\[pP](?:\{[^}]*\}|.)|\\x\{[^}]*\}|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|./gsu

/** A group that sets the flag `i`. */
const ignoresCase = /\(\?[a-zA-Z]*i/
/** A character of a class in brackets, which may be an escape. */
const classCharacter = /\\x(?:\{[0-9a-f]+\}|[0-9a-f]{2})|\\?./gisu
/**
 * The first and the last code point that have an upper and a lower case. For a class that ignores case, re2js looks up
 * each of its code points between these two.
 */
const [firstWithCase, lastWithCase] = [0x41, 0x1e943]
const hyphen = 0x2d
/** Looking up this many code points takes at least as long as compiling one step. */
const lookupsPerStep = 400

/** Code points that are looked up for a Unicode class, such as `\pL`, that ignores case: about as many as it has. */
const lookupsOfUnicodeClass = 6_000

/** What a pattern takes to compile, in steps. The pattern may be invalid. */
function patternSize(pattern: string): number {
  const isCaseIgnored = ignoresCase.test(pattern)
  /** Sizes of the open groups around the innermost one, whose size is `size`. */
  const outer: number[] = []
  let size = 0
  /** Size of the part that a following repetition would repeat. */
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
      last = 1 + 4 * unicodeClassesOf(token)
      size += last + (isCaseIgnored ? lookupsOf(token) / lookupsPerStep : 0)
    } else {
      const copies = Math.max(1, Number(min), Number(max ?? 0))
      size += last * (copies - 1)
      last *= copies
    }
  }
  return size + sum(outer)
}

/** The number of Unicode classes (`\pL`, `\p{Greek}`) in a token. */
function unicodeClassesOf(token: string): number {
  return token.match(/\\p/gi)?.length ?? 0
}

/**
 * The greatest number of code points that re2js looks up for a token that ignores case. In a class in brackets, each
 * hyphen counts as a range between its neighbours, because whether it forms a range depends on the characters before it.
 */
function lookupsOf(token: string): number {
  const ofUnicodeClasses = lookupsOfUnicodeClass * unicodeClassesOf(token)
  if (!token.startsWith('[')) return ofUnicodeClasses
  const points = Array.from(token.matchAll(classCharacter), ([character]) => codePointOf(character))
  let lookups = ofUnicodeClasses
  for (const [at, last] of points.entries()) {
    if (at < 2 || points[at - 1] !== hyphen) continue
    lookups += Math.max(0, Math.min(last, lastWithCase) - Math.max(points[at - 2] ?? 0, firstWithCase))
  }
  return lookups
}

/** The code point of a character of a class. */
function codePointOf(character: string): number {
  const hex = /^\\x\{?([0-9a-f]+)/i.exec(character)?.[1]
  return hex === undefined
    ? (character.codePointAt(character.length > 1 && character.startsWith('\\') ? 1 : 0) ?? 0)
    : parseInt(hex, 16)
}
