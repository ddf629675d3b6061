import type { Filter } from '@sluice/contracts/conditions'
import type { EventPosition } from '@sluice/contracts/events'
import { conditionSql } from '../conditions.ts'
import { type EventScope, inKeyOrder, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import type { Statement } from '../query-runner.ts'
import { storedEventColumns } from '../stored-event.ts'

/** A page of events: those of a scope that meet the conditions, before a position. */
export interface EventsSpec extends EventScope {
  conditions: Filter
  /** Only events that come after this one in the order of the list. */
  before: EventPosition | undefined
  limit: number
}

/**
 * Selects the newest events of a scope. The order is that of the table's key from its end, so that ClickHouse reads a
 * few granules of each part and not the whole range; a page further back begins where its cursor is. Conditions on
 * fields of users read the whole range, because ClickHouse does not keep the order through a join.
 */
export function eventsStatement({ conditions, before, limit, ...scope }: EventsSpec): Statement {
  // The primary key finds the range's end; the comparison with the cursor alone would not use it.
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
    fromUnixTimestamp64Milli({before_time:Int64}, 'UTC'), {before_id:String},
    CAST({before_environment:String}, 'Enum8(''prod'' = 1, ''dev'' = 2)'))`

function cursorParams({ timestamp, eventId, environment }: EventPosition) {
  return { before_time: timestamp, before_id: eventId, before_environment: environment }
}
