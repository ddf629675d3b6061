import type { Filter } from '@sluice/contracts/conditions'
import type { EventPosition } from '@sluice/contracts/events'
import type { Statement } from '../clickhouse/query-runner.ts'
import { conditionSql } from '../conditions.ts'
import { type EventScope, inKeyOrder, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import { storedEventColumns } from '../stored-event.ts'
import { timeSql } from '../time-sql.ts'

/** A page of events: the events of a scope that meet the conditions and come after a position in the list. */
export interface EventsSpec extends EventScope {
  conditions: Filter
  /** Only events that come after this one in the order of the list. */
  before: EventPosition | undefined
  limit: number
}

/**
 * Selects the newest events of a scope. They are sorted in the reverse order of the primary key, so that ClickHouse
 * reads a few granules of each part and not the whole range. A later page begins at its cursor. With conditions on
 * fields of users, ClickHouse reads the whole range, because it does not keep the order through a join.
 */
export function eventsStatement({ conditions, before, limit, ...scope }: EventsSpec): Statement {
  // The end of the range limits what the primary key selects. ClickHouse does not use the comparison with the cursor
  // for that.
  const range = before === undefined ? scope : { ...scope, end: Math.min(scope.end, before.timestamp + 1) }
  const filter = conditionSql(conditions, { prefix: 'filter' })
  return {
    sql: `
SELECT${storedEventColumns}
FROM events ${joinUsers(scope, filter.userFields)}
WHERE ${inKeyOrder} AND ${scopeCondition(range)}${before === undefined ? '' : ` AND ${isAfterCursor}`} AND ${filter.sql}
ORDER BY timestamp DESC, event_id DESC, environment DESC
LIMIT {limit:UInt32}`,
    params: { ...scopeParams(range), ...filter.params, ...(before && cursorParams(before)), limit },
  }
}

const isAfterCursor = `(timestamp, event_id, environment) < (
    ${timeSql('{before_time:Int64}')}, {before_id:String},
    CAST({before_environment:String}, 'Enum8(''prod'' = 1, ''dev'' = 2)'))`

function cursorParams({ timestamp, eventId, environment }: EventPosition) {
  return { before_time: timestamp, before_id: eventId, before_environment: environment }
}
