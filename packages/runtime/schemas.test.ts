import { expect, test } from '@jest/globals'
import joi from 'joi'
import { hasMoreCodePoints, text, time } from './schemas.ts'
import { validate } from './validate.ts'

test('a time in seconds is refused, while 0, milliseconds of 1970 before its second day and all from 1971 on are times', () => {
  const one = joi.object({ at: time })
  for (const at of [100_000_000, 1_431_820_800, 31_535_999_999]) {
    expect((): unknown => validate(one, { at })).toThrow(
      'Invalid field: at must be Unix time in milliseconds, not in seconds',
    )
  }
  for (const at of [0, 1, 86_400_000, 31_536_000_000, 1_431_820_800_000]) expect(validate(one, { at })).toEqual({ at })
})

test('optional fields that are null or empty are absent from the result', () => {
  expect(validate(joi.object({ a: text(4), b: text(4) }), { a: '', b: null })).toStrictEqual({})
})

test('the length of a text counts code points, and ill-formed UTF-16 is repaired', () => {
  const face = '\u{1F600}'
  const one = joi.object({ a: text(4) })
  expect(validate(one, { a: face.repeat(4) })).toStrictEqual({ a: face.repeat(4) })
  expect((): unknown => validate(one, { a: face.repeat(5) })).toThrow('Invalid field: a exceeds maximum length of 4')
  expect(validate(one, { a: 'a\uD83D' })).toStrictEqual({ a: 'a\uFFFD' })
  expect(hasMoreCodePoints('ab', 2)).toBe(false)
  expect(hasMoreCodePoints('abc', 2)).toBe(true)
  expect(hasMoreCodePoints(face.repeat(2), 2)).toBe(false)
  expect(hasMoreCodePoints(`${face}ab`, 2)).toBe(true)
})
