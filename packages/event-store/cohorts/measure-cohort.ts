import type { Criteria } from '@sluice/contracts/conditions'
import type { QueryRunner, Statement } from '../clickhouse/query-runner.ts'
import { userWeeksScope } from '../event-scope.ts'
import { percent } from '../percent.ts'
import { type CohortScope, membersStatement } from './members.ts'

export interface CohortSizeSpec extends CohortScope {
  criteria: Criteria
}

/** The number of a cohort's users, and their share of all users. */
export interface CohortSize {
  /** Users that the criteria describe. */
  size: number
  /** Percent of the site's users with 2 decimals. */
  share: number
}

interface SizeRow {
  size: number
  /** Users of the site. */
  users: number
}

/** Counts the users that criteria describe (docs/http-interface.md#cohort-preview). */
export async function measureCohort(spec: CohortSizeSpec, runner: QueryRunner): Promise<CohortSize> {
  const { rows } = await runner.query<SizeRow>(sizeStatement(spec))
  const { size = 0, users = 0 } = rows[0] ?? {}
  // A user whose first event arrives between the two counts may only be included in the first one.
  return { size, share: Math.min(100, percent(size, users)) }
}

/** The site's users are counted from the projection `user_weeks`. */
function sizeStatement(spec: CohortSizeSpec): Statement {
  const members = membersStatement(spec.criteria, spec)
  return {
    sql: `
SELECT
    (SELECT count() FROM (${members.sql})) AS size,
    (
        SELECT count() FROM
        (
            SELECT user_key FROM events WHERE ${userWeeksScope(spec)}
            GROUP BY user_key HAVING toUnixTimestamp64Milli(min(timestamp)) <= {now:Int64}
        )
    ) AS users`,
    params: { ...members.params, now: spec.now },
  }
}
