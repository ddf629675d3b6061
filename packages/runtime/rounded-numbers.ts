/** Decimal numbers of fewer digits keep all of them as doubles, unless they are smaller than `normalMin`. */
const digitsMin = 16
/**
 * The smallest double with full precision. Smaller numbers become doubles with fewer digits, or 0. They are left out,
 * because the search would take twice as long with them (docs/decisions/008-hot-path.md).
 */
const normalMin = 2 ** -1022

/**
 * Whether the JSON number `source` differs from what its double `value` is printed as, by JavaScript and with 17
 * digits, as many programs print doubles (`0.10000000000000001` for `0.1`). An integer beyond 2^53 counts even if it is
 * the same number, so that it is not printed with an exponent. False for numbers smaller than `normalMin`, for numbers
 * with a fraction or an exponent that are beyond all doubles, and for what is not a number.
 */
export function isRounded(source: string, value: number): boolean {
  if (source.length < digitsMin) return false
  if (!/[.eE]/.test(source)) return !Number.isNaN(value) && !Number.isSafeInteger(value)
  const printed = String(value)
  if (source === printed || !Number.isFinite(value) || Math.abs(value) < normalMin) return false
  const sent = decimalOf(source)
  return !areEqual(sent, decimalOf(printed)) && !areEqual(sent, decimalOf(value.toPrecision(17)))
}

/**
 * Whether a JSON text has a number that is rounded (`isRounded`). The text is not parsed, and the search takes linear
 * time. Characters within a string may count as such a number.
 *
 * The loop looks for runs of `digitsMin` digits, which may include a point. It reads few of the characters, while a
 * regular expression would read all of them and take up to ten times as long.
 */
export function hasRoundedNumber(text: string): boolean {
  let end = digitsMin - 1
  while (end < text.length) {
    let at = end
    while (at > end - digitsMin && isDigitOrPoint(text.charCodeAt(at))) at--
    if (at === end - digitsMin) {
      const number = numberAround(text, end)
      if (number.isRounded) return true
      at = number.end
    }
    // No run that is long enough includes this character.
    end = at + digitsMin
  }
  return false
}

/** What looks like a number around one of its characters. */
function numberAround(text: string, at: number): { end: number; isRounded: boolean } {
  let start = at
  let end = at + 1
  while (start > 0 && isInNumber(text.charCodeAt(start - 1))) start--
  while (end < text.length && isInNumber(text.charCodeAt(end))) end++
  if (start > 0 && !'[:, \t\r\n'.includes(text.charAt(start - 1))) return { end, isRounded: false }
  const source = text.slice(start, end)
  return { end, isRounded: isRounded(source, Number(source)) }
}

const isDigitOrPoint = (code: number): boolean => code >= 0x2e && code <= 0x39 && code !== 0x2f

/** Whether it is one of `0-9.+-eE`. */
const isInNumber = (code: number): boolean =>
  isDigitOrPoint(code) || code === 0x2b || code === 0x2d || code === 0x45 || code === 0x65

/** A decimal number without its sign. */
interface Decimal {
  digits: string
  exponent: number
}

const areEqual = (a: Decimal, b: Decimal): boolean => a.digits === b.digits && a.exponent === b.exponent

/**
 * The digits of a decimal number without zeros at either end, and the exponent of ten of the last one. Loops remove the
 * zeros, because a regular expression for trailing zeros takes quadratic time, and clients may send megabytes.
 */
function decimalOf(number: string): Decimal {
  const [mantissa = '', power = '0'] = number.split(/[eE]/)
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const all = whole + fraction
  let start = 0
  let end = all.length
  while (start < end && all.charAt(start) === '0') start++
  while (start < end && all.charAt(end - 1) === '0') end--
  return {
    digits: all.slice(start, end),
    exponent: start === end ? 0 : Number(power) - fraction.length + all.length - end,
  }
}
