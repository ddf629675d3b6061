import type { QueryRunner } from '../query-runner.ts'
import { cohortMembers, type ExportScope, type MemberLists } from './scope.ts'

/** Members that are sent with each statement: 200 KB. With five times as many, ClickHouse took a second for the list. */
const listedMax = 10_000
/** ClickHouse accepts 128 KiB in a parameter, in which a comma may be percent-encoded: 92 KB at most. */
const membersPerList = 4_000

/**
 * Selects the members of the scope's cohort; `many`: there are more than `max`, which are too many to be sent. They stay
 * the same until events are erased or expire, because the times of receipt are limited, unless the cohort has conditions
 * on fields of users, which an import of users may change. Undefined without a cohort.
 */
export async function selectMembers(
  scope: ExportScope,
  runner: QueryRunner,
  max = listedMax,
): Promise<MemberLists | 'many' | undefined> {
  if (scope.cohort === undefined) return undefined
  const { sql, params } = cohortMembers(scope, scope.cohort)
  const { rows } = await runner.query<{ member: string }>({
    sql: `SELECT toString(user_key) AS member FROM (${sql}) LIMIT {members_max:UInt64}`,
    params: { ...params, members_max: max + 1 },
  })
  if (rows.length > max) return 'many'
  return Array.from({ length: Math.ceil(rows.length / membersPerList) }, (_, n) => {
    const list = rows.slice(n * membersPerList, (n + 1) * membersPerList)
    return `[${list.map(({ member }) => member).join(',')}]`
  })
}
