import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { cohortMembers, type ExportScope, type MemberLists } from './scope.ts'

/**
 * Maximum number of members that each statement carries: 200 KB. With five times as many, ClickHouse needed a second
 * for the list.
 */
const listedMax = 10_000
/**
 * ClickHouse accepts 128 KiB in a parameter. A list of this size has at most 92 KB, even if each comma is
 * percent-encoded.
 */
const membersPerList = 4_000

/**
 * Selects the members of the scope's cohort. Returns `many` when there are more than `max`, which are too many to send,
 * and undefined without a cohort. The times of receipt are limited, so a repeat selects the same members, until events
 * are erased or expire. A cohort with conditions on fields of users may also change with an import of users.
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
