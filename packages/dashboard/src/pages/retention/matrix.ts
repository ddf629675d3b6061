import type { CompletableRow, RetentionMatrix, RetentionRow } from '@sluice/contracts/retention'
import type { CsvRow } from '../../format/csv.ts'
import { formatIso } from '../../format/dates.ts'

/** The matrix as rows of CSV: one for each cohort and week, those of the average first. */
export function matrixRows({ average, cohorts, timezone }: RetentionMatrix): CsvRow[] {
  const rowOf = (week_start: string, size: number | undefined, row: RetentionRow, complete: boolean): CsvRow => ({
    week_start,
    size,
    week: row.week,
    retention_rate: row.retention_rate,
    cohort_size: row.cohort_size,
    returning_users: row.returning_users,
    complete,
  })
  return [
    ...average.map((row) => rowOf('average', undefined, row, true)),
    ...cohorts.flatMap(({ week_start, size, retention_by_week }) =>
      retention_by_week.map((row) => rowOf(formatIso(week_start, timezone), size, row, row.complete)),
    ),
  ]
}

/**
 * Lowest and highest rate of what is tinted: complete weeks with users, without week 0 where it is 100 % for everybody.
 */
export function tintedRange({ cohorts }: RetentionMatrix, isWeek0Counted: boolean): readonly [number, number] {
  const rates = cohorts.flatMap(({ retention_by_week }) =>
    retention_by_week
      .filter((row) => isTinted(row, isWeek0Counted) && row.complete)
      .map(({ retention_rate }) => retention_rate),
  )
  return rates.length === 0 ? [0, 100] : [Math.min(...rates), Math.max(...rates)]
}

/** Whether a cell has a tint. */
export const isTinted = (row: Pick<CompletableRow, 'week' | 'cohort_size'>, isWeek0Counted: boolean): boolean =>
  row.cohort_size > 0 && (row.week > 0 || isWeek0Counted)

/** How strong the tint of a rate is, 0 to 1, within the range of the data. */
export function heatOf(rate: number, [low, high]: readonly [number, number]): number {
  if (high <= low) return rate > 0 ? 0.5 : 0
  return Math.min(1, Math.max(0, (rate - low) / (high - low)))
}
