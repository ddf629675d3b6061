import { userFields } from '@sluice/contracts/conditions'
import { userFileColumns } from '@sluice/contracts/import-columns'
import { siteIdCondition } from '../event-scope.ts'
import { columnList, type ExportRows } from './row-formats.ts'
import { type ExportScope, scopeSql } from './scope.ts'

const columns = [
  ...userFileColumns.map((name) => ({ name, kind: 'text' as const })),
  { name: 'first_seen', kind: 'number' },
  { name: 'last_seen', kind: 'number' },
  { name: 'event_count', kind: 'number' },
] as const

/**
 * The users of the scope's events, sorted by id, with the first and last time and the number of these events. Imported
 * users without such events are rows too, without times, unless a range, a filter or a cohort selects events.
 */
export function userExportRows(scope: ExportScope): ExportRows {
  const { join, events, filter, cohort, params } = scopeSql(scope)
  const { start, end } = scope
  const isAll = start === undefined && end === undefined && filter === undefined && cohort === undefined
  // With both environments, a user's fields are those of the record of prod, or of dev if prod has none. Fields from
  // both records would describe no real record.
  const fields = userFields.map((field) => `argMax(imported_${field}, import_rank)`)
  const seen = (aggregate: string): string => `if(sum(events_of_user) = 0, NULL, ${aggregate})`
  return {
    columns,
    sql: `
SELECT
    ${columnList([
      'id',
      ...fields,
      seen('minIf(first_ms, events_of_user > 0)'),
      seen('max(last_ms)'),
      'sum(events_of_user)',
    ])}
FROM
(
    SELECT
        user_id AS id,
        toUnixTimestamp64Milli(min(timestamp)) AS first_ms,
        toUnixTimestamp64Milli(max(timestamp)) AS last_ms,
        count() AS events_of_user,
        ${userFields.map((field) => `'' AS imported_${field}`).join(', ')},
        0 AS import_rank
    FROM events
    ${join}
    WHERE ${[events, `events.user_id != ''`, ...(cohort === undefined ? [] : [cohort])].join(' AND ')}
    GROUP BY events.user_id
    ${filter === undefined ? '' : `HAVING countIf(${filter}) > 0`}
    UNION ALL
    SELECT user_id, 0, 0, 0, ${userFields.join(', ')}, if(environment = 'prod', 2, 1)
    FROM users FINAL
    WHERE ${siteIdCondition(scope)}
)
GROUP BY id
${isAll ? '' : 'HAVING sum(events_of_user) > 0'}
ORDER BY id`,
    params,
  }
}
