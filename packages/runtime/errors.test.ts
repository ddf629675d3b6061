import { describe, expect, test } from '@jest/globals'
import { internalMessage, unavailable } from './errors.ts'

describe('the text of a failure for operators', () => {
  const attempts = ['connect ECONNREFUSED ::1:5432', 'connect ECONNREFUSED 127.0.0.1:5432'].map(
    (text) => new Error(text),
  )

  test.each([
    ['an AppError', unavailable('Postgres: full'), 'Postgres: full'],
    ['an error', new Error('no'), 'no'],
    ['attempts at several addresses', new AggregateError(attempts), attempts.map(({ message }) => message).join(', ')],
    ['attempts that failed alike', new AggregateError([new Error('no'), new Error('no')]), 'no'],
    ['an error with a code alone', Object.assign(new Error(''), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
    ['an error without a text', new TypeError(''), 'TypeError'],
    ['another value', 'no', 'no'],
  ])('is that of %s', (_, error, text) => {
    expect(internalMessage(error)).toBe(text)
  })
})
