import { expect, test } from '@jest/globals'
import { parseTimestamp } from './parse-timestamp.ts'

const noon = Date.UTC(2026, 0, 31, 12)

test.each<[text: unknown, ms: number | undefined]>([
  ['2026-01-31T12:00:00.000Z', noon],
  ['2026-01-31T12:00:00Z', noon],
  ['2026-01-31T12:00Z', noon],
  ['2026-01-31t14:00:00.000+02:00', noon],
  ['2026-01-31T14:00:00+0200', noon],
  ['2026-01-31 14:00:00 +02', noon],
  ['2026-01-31T12:00:00.123456789Z', noon + 123],
  ['2026-01-31T12:00:00.1239999999999999999999Z', noon + 123],
  ['2026-01-31T12:00:00,5Z', noon + 500],
  ['2016-12-31T23:59:60Z', Date.UTC(2017, 0, 1)],
  ['2017-01-01T00:59:60.25+01:00', Date.UTC(2017, 0, 1) + 250],
  ['2026-01-31T12:00:00.123456', noon + 123],
  ['2026-01-31', Date.UTC(2026, 0, 31)],
  ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29)],
  [noon, noon],
  [noon + 0.5, noon + 0.5],
  [undefined, undefined],
  [null, undefined],
  ['', undefined],
])('%p is the time %p', (value, ms) => {
  expect(parseTimestamp(value, 'timestamp')).toBe(ms)
})

test.each([
  '2026-02-29T00:00:00Z',
  '2026-13-01T00:00:00Z',
  '2026-01-31T25:00:00Z',
  '2026-01-31T12:60:00Z',
  '2026-01-31T12:00:61Z',
  '2026-01-31T12:00:00.Z',
  '31.01.2026',
  'Sat, 31 Jan 2026 12:00:00 GMT',
  '1795419743042',
  ' 2026-01-31',
  true,
  {},
])('%p is no time', (value) => {
  expect(() => parseTimestamp(value, 'timestamp')).toThrow(
    'Invalid field: timestamp must be an ISO 8601 date, e.g. 2026-01-31T12:00:00.000Z',
  )
})
