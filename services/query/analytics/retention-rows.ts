import type { CompletableRow, RetentionRow } from '@sluice/contracts/retention'
import type { RetentionNumbers, RetentionWeekNumbers } from '@sluice/event-store/retention/analyse-retention'

/** Converts the numbers of a week to a row of the response. */
export function toRetentionRow({ week, retentionRate, size, returningUsers }: RetentionNumbers): RetentionRow {
  return { week, retention_rate: retentionRate, cohort_size: size, returning_users: returningUsers }
}

/** Like `toRetentionRow`, but for a week that may not be over. */
export function toCompletableRow({ isComplete, ...numbers }: RetentionWeekNumbers): CompletableRow {
  return { ...toRetentionRow(numbers), complete: isComplete }
}
