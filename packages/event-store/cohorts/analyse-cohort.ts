import { sum } from '@sluice/runtime/sum'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { percent } from '../percent.ts'
import { type AgeRow, analysisStatement, type CohortAnalysisSpec } from './analysis-statement.ts'

/** The members that had an event in a week of theirs. Each member's weeks begin at the member's entry. */
export interface CohortWeekNumbers {
  /** 0 is the week of the entry. */
  week: number
  /** Percent of the counted members with 2 decimals. */
  retentionRate: number
  /** Members that are counted. */
  size: number
  returningUsers: number
  /** Whether the week is over for all members that are counted. */
  isComplete: boolean
}

/** The size of a cohort, and how many of its users return. */
export interface CohortNumbers {
  /** Members of the cohort. */
  size: number
  weeks: CohortWeekNumbers[]
}

/** Counts a cohort's members and those that return, week by week (docs/http-interface.md#cohort-analysis). */
export async function analyseCohort(spec: CohortAnalysisSpec, runner: QueryRunner): Promise<CohortNumbers> {
  const { rows } = await runner.query<AgeRow>(analysisStatement(spec))
  return {
    size: sumOfUsers(rows),
    weeks: Array.from({ length: spec.weeks }, (_, week) => weekNumbers(rows, week)),
  }
}

/**
 * Week 0 counts all members. A later week counts the members for whom that week is over. While there are none, it
 * counts the members for whom that week has begun.
 */
function weekNumbers(rows: readonly AgeRow[], week: number): CohortWeekNumbers {
  const over = rows.filter(({ weeks_over }) => weeks_over > week)
  const begun = rows.filter(({ weeks_over }) => weeks_over >= week)
  const isComplete = week === 0 ? over.length === rows.length : over.length > 0
  const counted = week === 0 || !isComplete ? begun : over
  const size = sumOfUsers(counted)
  const returningUsers = sum(counted.map(({ returned }) => returned[week] ?? 0))
  return { week, retentionRate: percent(returningUsers, size), size, returningUsers, isComplete }
}

function sumOfUsers(rows: readonly AgeRow[]): number {
  return sum(rows.map(({ users }) => users))
}
