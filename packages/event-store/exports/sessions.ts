import { eventOrder, joinOverlongSessions, sessionWindowMs } from '../session-sql.ts'
import { columnList, type ExportRows } from './row-formats.ts'
import { type ExportScope, scopeSql } from './scope.ts'

const columns = [
  { name: 'session_id', kind: 'text' },
  { name: 'user_id', kind: 'text' },
  { name: 'started_at', kind: 'number' },
  { name: 'ended_at', kind: 'number' },
  { name: 'event_count', kind: 'number' },
  { name: 'country', kind: 'text' },
  { name: 'device_type', kind: 'text' },
] as const

/**
 * The sessions that start in the scope's range, as stats define them (../session-sql.ts), sorted by their start.
 * Country and device are those of the first event. The user is the first one that an event names.
 */
export function sessionExportRows(scope: ExportScope): ExportRows {
  const { join, events: scoped, filter, cohort, params } = scopeSql(scope, { widenedByMs: sessionWindowMs })
  const events = `${scoped} AND session_key != 0`
  const conditions = [filter, cohort].filter((condition) => condition !== undefined)
  return {
    columns,
    sql: `
SELECT
    ${columnList([
      'session_id',
      `argMinIf(user_id, ${eventOrder}, user_id != '')`,
      'toUnixTimestamp64Milli(min(timestamp))',
      'toUnixTimestamp64Milli(max(timestamp))',
      'count()',
      `argMin(toString(country), ${eventOrder})`,
      `argMin(toString(device_type), ${eventOrder})`,
    ])}
FROM events
${join}
${joinOverlongSessions(events)}
WHERE ${events} AND (closed_ms = 0 OR toUnixTimestamp64Milli(timestamp) < closed_ms)
GROUP BY session_id
HAVING c2 >= {range_start:Int64} AND c2 < {range_end:Int64}
    ${conditions.map((condition) => `AND countIf(${condition}) > 0`).join('\n    ')}
ORDER BY c2, session_id`,
    params,
  }
}
