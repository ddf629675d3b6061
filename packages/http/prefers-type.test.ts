import { expect, test } from '@jest/globals'
import { prefersType } from './prefers-type.ts'

test.each([
  ['', false],
  ['*/*', false],
  ['text/*', false],
  ['application/json', false],
  ['text/csv', true],
  ['Text/CSV; charset=utf-8', true],
  ['text/csv, */*', true],
  ['text/csv, application/json', true],
  ['application/json, text/csv;q=0.5', false],
  ['application/json;q=0.5, text/csv', true],
  ['text/csv;q=0.3, application/*;q=0.8', false],
  ['text/csv;q=0.3, */*', false],
  ['text/csv;q=0.3, application/*;q=0.2, */*', true],
  ['text/csv;q=0', false],
  ['text/csv;q=x', false],
])('Accept: %s prefers CSV to JSON: %s', (accept, expected) => {
  expect(prefersType(accept, 'text/csv')).toBe(expected)
})
