import { expect, it } from '@jest/globals'
import type { CompletableRow, RetentionMatrix } from '@sluice/contracts/retention'
import { loadTemporal } from '../../state/temporal.ts'
import { heatOf, matrixRows, tintedRange } from './matrix.ts'

const row = (week: number, retention_rate: number, complete = true): CompletableRow => ({
  week,
  retention_rate,
  cohort_size: 10,
  returning_users: retention_rate / 10,
  complete,
})

const matrix: RetentionMatrix = {
  site_id: 'shop',
  weeks: 3,
  timezone: 'Europe/Berlin',
  cohorts: [
    {
      week_start: Date.parse('2026-11-02T00:00+01:00'),
      size: 10,
      retention_by_week: [row(0, 100), row(1, 20), row(2, 90, false)],
    },
    { week_start: Date.parse('2026-11-09T00:00+01:00'), size: 10, retention_by_week: [row(0, 100), row(1, 40, false)] },
    {
      week_start: Date.parse('2026-11-16T00:00+01:00'),
      size: 0,
      retention_by_week: [{ ...row(0, 0, false), cohort_size: 0 }],
    },
  ],
  average: [{ week: 0, retention_rate: 100, cohort_size: 20, returning_users: 20 }],
  complete_until: 0,
}

it('rows of CSV are those of the average, then each week of each cohort', async () => {
  await loadTemporal()
  const rows = matrixRows(matrix)
  expect(rows).toHaveLength(7)
  expect(rows[0]).toMatchObject({ week_start: 'average', week: 0, retention_rate: 100, cohort_size: 20 })
  expect(rows[2]).toEqual({
    week_start: '2026-11-02T00:00:00+01:00',
    size: 10,
    week: 1,
    retention_rate: 20,
    cohort_size: 10,
    returning_users: 2,
    complete: true,
  })
})

it('the tint fits the complete weeks, and week 0 only when it can be less than everybody', () => {
  expect(tintedRange(matrix, false)).toEqual([20, 20])
  expect(tintedRange(matrix, true)).toEqual([20, 100])
  expect(tintedRange({ ...matrix, cohorts: [] }, false)).toEqual([0, 100])
})

it('the tint goes from 0 at the lowest rate to 1 at the highest', () => {
  expect(heatOf(20, [20, 60])).toBe(0)
  expect(heatOf(40, [20, 60])).toBe(0.5)
  expect(heatOf(99, [20, 60])).toBe(1)
  expect(heatOf(20, [20, 20])).toBe(0.5)
  expect(heatOf(0, [0, 0])).toBe(0)
})
