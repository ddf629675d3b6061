import { expect, test } from '@jest/globals'
import { parseRetryAfter } from './retry-after.ts'

const now = Date.UTC(2026, 10, 22, 12)

test.each([
  ['0', 0],
  ['120', 120_000],
  [' 7 ', 7_000],
  ['999999999', 999_999_999_000],
  ['Sun, 22 Nov 2026 12:01:30 GMT', 90_000],
  ['Sunday, 22-Nov-26 12:01:30 GMT', 90_000],
  ['Sun Nov 22 12:01:30 2026', 90_000],
  ['Sun, 22 Nov 2026 11:00:00 GMT', 0],
])('%j is a wait of %d ms', (header, expected) => {
  expect(parseRetryAfter(header, now)).toBe(expected)
})

test.each([
  undefined,
  '',
  '-1',
  '1.5',
  '1e3',
  '0x10',
  '9999999999',
  'soon',
  '2026-11-22',
  'Sun, 99 Nov 2026 12:01:30 GMT',
])('%j is no wait', (header) => {
  expect(parseRetryAfter(header, now)).toBeNull()
})
