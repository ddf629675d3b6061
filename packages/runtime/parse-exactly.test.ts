import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { startCpuStopwatch } from '../../tests/support/stopwatch.ts'
import { doubleOf, parseExactly } from './parse-exactly.ts'
import { hasRoundedNumber } from './rounded-numbers.ts'

describe('a number keeps its digits', () => {
  test.each([
    ['an integer beyond 2^53', ['9007199254740993', '-9007199254740992', '100000000000000000000000']],
    ['a decimal with more digits than a double has', ['0.1234567890123456789', '-12345678.123456789012']],
    [
      'a decimal that a double makes an integer',
      ['3.00000000000000000001', '9007199254740993.0', '0.99999999999999999'],
    ],
    ['a number with an exponent', ['1.2345678901234567890123E+5', '12345678901234567890e-20', '9007199254740993e0']],
    ['a very small number', ['1.2345678901234567890e-300', `-0.${'0'.repeat(300)}12345678901234567890`]],
  ])('%s', (_name, numbers) => {
    for (const number of numbers) {
      const list = `[1,${number}, {"a":${number}}]`
      expect(JSON.stringify(parseExactly(list))).toBe(list.replace(' ', ''))
      expect(JSON.stringify(parseExactly(number))).toBe(number)
      expect(doubleOf(parseExactly(number))).toBe(Number(number))
    }
  })
})

describe('a text is parsed as JSON.parse does it', () => {
  test.each([
    [
      'numbers as JavaScript prints them',
      ['0.30000000000000004', '1234.5999999940395', '5e-324', '1.7976931348623157e308'],
    ],
    [
      'numbers that other programs print with 17 digits',
      ['0.10000000000000001', '19.989999999999998', '-1.0000000000000001e-05'],
    ],
    [
      'other forms of the same numbers',
      ['1.0', '0.0', '-0', '-0.00000000000000000000', '1.50000000000000000000', '0e-400'],
    ],
    [
      'numbers that hold all digits',
      ['9007199254740991', '1e23', '100e-2', '2.2250738585072014e-308', '1.000000e-0300'],
    ],
    ['numbers beyond all doubles that are no integers', ['1e999999999', '-1.5e400', `${'9'.repeat(400)}.5`]],
    [
      'numbers nearer to 0 than 2.3e-308',
      ['1.2345e-320', '1.2345678901234567890e-320', '-1E-0400', '1e-999999999', `0.${'0'.repeat(400)}1`],
    ],
    [
      'strings and names with digits',
      ['"12345678901234567890"', '{"12345678901234567890":":0.12345678901234567890,"}'],
    ],
  ])('with %s', (_name, texts) => {
    for (const text of texts) expect(parseExactly(text)).toStrictEqual(JSON.parse(text))
  })

  test('which throws for what is no JSON', () => {
    const broken = [
      '',
      '12345678901234567890.',
      '[1.2345678901234567890.1]',
      '{"a":0123456789012345678}',
      '[0.12345678901234567890',
    ]
    for (const text of broken) expect(() => parseExactly(text)).toThrow(SyntaxError)
  })

  test('if it is nested so deeply that no event may be', () => {
    const text = `{"n":12345678901234567890,"deep":${'['.repeat(20_000)}${']'.repeat(20_000)}}`
    expect(Object.keys(parseExactly(text) as object)).toStrictEqual(['n', 'deep'])
  })
})

test('of the numbers that JavaScript prints, only integers beyond 2^53 count as rounded', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
      // Integers from 2^53 to 10^21 are printed with all digits: they stay integers.
      const isPrintedWhole = Math.abs(number) >= 2 ** 53 && Math.abs(number) < 1e21
      expect(hasRoundedNumber(JSON.stringify({ number, list: [number] }))).toBe(isPrintedWhole)
    }),
  )
})

const digits = fc.oneof(
  fc.stringMatching(/^[0-9]{1,30}$/),
  fc.stringMatching(/^[0-9]{0,3}0{0,25}[0-9]{1,3}$/),
  fc.constantFrom('9007199254740992', '9007199254740991', '22250738585072014', '17976931348623157', '5'),
)
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    digits.map((text) => text.replace(/^0+(?=\d)/, '')),
    fc.option(digits, { nil: undefined }),
    fc.option(
      fc.tuple(
        fc.constantFrom('e', 'E', 'e+', 'e-', 'E-', 'e-0'),
        fc.oneof(fc.nat(9), fc.nat(420), fc.integer({ min: 290, max: 345 })),
      ),
      { nil: undefined },
    ),
  )
  .map(([sign, whole, fraction, exponent]) => {
    return (
      sign + whole + (fraction === undefined ? '' : `.${fraction}`) + (exponent === undefined ? '' : exponent.join(''))
    )
  })
const space = fc.constantFrom('', '', ' ', '\n', '\t ')
const token = fc.oneof(
  fc.tuple(space, number, space).map((parts) => parts.join('')),
  fc.oneof(number, fc.string({ unit: 'binary' })).map((text) => JSON.stringify(text)),
)
const json = fc.oneof(
  token,
  fc.array(token).map((items) => `[${items.join(',')}]`),
  fc.array(fc.tuple(fc.oneof(number, fc.string()), token)).map((members) => {
    return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
  }),
)

/** A decimal number as an integer and the exponent of ten that it is multiplied with. */
function exactly(text: string): { integer: bigint; exponent: number } {
  const {
    whole = '',
    fraction = '',
    power = '0',
  } = /^(?<whole>-?\d+)(?:\.(?<fraction>\d+))?(?:[eE](?<power>.+))?$/.exec(text)?.groups ?? {}
  return { integer: BigInt(whole + fraction), exponent: Number(power) - fraction.length }
}

/** Whether two texts mean the same number. */
function areEqual(one: string, other: string): boolean {
  const [a, b] = [exactly(one), exactly(other)]
  const exponent = Math.min(a.exponent, b.exponent)
  return a.integer * 10n ** BigInt(a.exponent - exponent) === b.integer * 10n ** BigInt(b.exponent - exponent)
}

test('exactly the numbers that would become others are kept as they stand, wherever they stand', () => {
  let kept = 0
  let plain = 0
  fc.assert(
    fc.property(json, (text) => {
      const expected = JSON.parse(text, (_key, value: unknown, { source }) => {
        if (typeof value !== 'number' || source === undefined) return value
        const isLargeInteger = /^-?\d+$/.test(source) && !Number.isSafeInteger(value)
        const isInRange = Number.isFinite(value) && Math.abs(value) >= 2 ** -1022
        const isPrinted = [String(value), value.toPrecision(17)].some((printed) => areEqual(source, printed))
        const isKept = isLargeInteger || (isInRange && !isPrinted)
        if (isKept) kept++
        else plain++
        return isKept ? JSON.rawJSON(source) : value
      })
      const parsed = parseExactly(text)
      expect(parsed).toStrictEqual(expected)
      expect(JSON.stringify(parsed)).toBe(JSON.stringify(expected))
    }),
    { numRuns: 5_000 },
  )
  // The test is meaningful only if both are frequent.
  expect(kept).toBeGreaterThan(2_000)
  expect(plain).toBeGreaterThan(2_000)
})

test('megabytes of any of these characters take linear time', () => {
  const size = 2_000_000
  const bodies = [
    '0',
    '1',
    '.',
    '-',
    'e',
    'e-',
    'e-111',
    '1e-111',
    '0.',
    '1,',
    '1.0000000000000001,',
    '5e-324,',
    '[1e-400',
  ]
  for (const characters of bodies) {
    const text = characters.repeat(size / characters.length)
    for (const body of [text, `[${text}`, `[0.${text}1`, `[1${text}`, `[1${text}e-400`]) {
      const elapsedMs = startCpuStopwatch()
      hasRoundedNumber(body)
      expect(elapsedMs()).toBeLessThan(5_000)
    }
  }
  const zeros = '0'.repeat(size)
  const elapsedMs = startCpuStopwatch()
  for (const text of [`[1${zeros}]`, `[1.${zeros}1]`, `[1${zeros}1e-${size}]`, `[0.${zeros}1e${zeros}1]`])
    parseExactly(text)
  expect(elapsedMs()).toBeLessThan(5_000)
})
