import { expect, test } from '@jest/globals'
import { earliestRead } from './earliest-read.ts'
import type { StatsSpec } from './spec.ts'

const dayMs = 86_400_000
const start = Date.UTC(2026, 2, 1)
const spec: StatsSpec = { siteId: 'shop', environment: 'prod', metric: 'event_count', start, end: start + 7 * dayMs }

test('an evaluation reads the sessions that began in the day before its range, and before the range it compares', () => {
  expect(earliestRead(spec)).toBe(start - dayMs)
  expect(earliestRead({ ...spec, compare: 'previous_period' })).toBe(start - 8 * dayMs)
  expect(earliestRead({ ...spec, compare: 'previous_year' })).toBe(Date.UTC(2025, 2, 1) - dayMs)
})
