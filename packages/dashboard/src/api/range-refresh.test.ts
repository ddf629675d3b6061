import { expect, it } from '@jest/globals'
import { batchRefreshMs, rangeRefreshMs } from './range-refresh.ts'

const minuteMs = 60_000
const soon = 70_000
const later = 5 * minuteMs
const over = { end_date: 100 * minuteMs, complete_until: 199 * minuteMs, timestamp: 200 * minuteMs }
const growing = { ...over, complete_until: 180 * minuteMs }

it.each([
  ['has no answer yet', undefined, false],
  ['is complete', over, later],
  ['has no time of its request', { end_date: 100, complete_until: 101 }, later],
  ['ends later than its events are stored', { ...over, complete_until: 99 * minuteMs, timestamp: over.end_date }, soon],
  ['still gets old events', growing, soon],
])('refetches a range that %s accordingly', (_, answer, expected) => expect(rangeRefreshMs(answer)).toBe(expected))

it('refetches a batch as soon as one of its ranges needs it', () => {
  const entryOf = (data: typeof over) => ({ success: true, data }) as never
  const failed = { success: false, status: 503, error: 'Busy' } as const
  expect(batchRefreshMs(undefined)).toBe(false)
  expect(batchRefreshMs({ results: [failed] })).toBe(false)
  expect(batchRefreshMs({ results: [entryOf(over), failed] })).toBe(later)
  expect(batchRefreshMs({ results: [entryOf(over), entryOf(growing)] })).toBe(soon)
})
