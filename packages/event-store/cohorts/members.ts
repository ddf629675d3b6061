import type { Criteria } from '@sluice/contracts/conditions'
import type { QueryParams } from '../clickhouse/client.ts'
import type { Statement } from '../clickhouse/query-runner.ts'
import { conditionSql } from '../conditions.ts'
import { type EventScope, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import { timeSql } from '../time-sql.ts'

/** The events that decide which users are members of a cohort, and that analyses of the cohort read. */
export interface CohortScope extends Pick<EventScope, 'siteId' | 'environment'> {
  /** Unix ms: later events do not count. */
  now: number
  /**
   * Unix ms: events that were received at that time or later do not count. Undefined: the time of receipt does not
   * matter.
   */
  receivedUntil?: number
}

/** All events of a site until now. */
export function eventsOf({ siteId, environment, now }: CohortScope): EventScope {
  return { siteId, environment, start: 0, end: now + 1 }
}

/**
 * Selects the members of a cohort and the times of their entry (docs/http-interface.md#cohort-members), as rows of
 * user_key and entered_ms (Unix ms). The placeholders are those of `scopeParams`, `received_until`, and the
 * placeholders of the criteria, whose names begin with `criteria`.
 */
export function membersStatement(criteria: Criteria, scope: CohortScope): Statement {
  const events = eventsOf(scope)
  // With the scope `user`, different events may meet the conditions of an `and`. An `or` is met by the first event that
  // meets any of its conditions, so its scope makes no difference.
  const isMetBySeveralEvents = criteria.scope === 'user' && criteria.type === 'and'
  const conditions = isMetBySeveralEvents
    ? criteria.conditions.map((condition, index) => conditionSql([condition], { prefix: `criteria_${index}` }))
    : [conditionSql(criteria, { prefix: 'criteria' })]
  const firsts = conditions.map((_, index) => `met_${index}`)
  const time = 'toUnixTimestamp64Milli(timestamp)'
  const received =
    scope.receivedUntil === undefined
      ? { sql: '', params: {} }
      : {
          sql: ` AND received_at < ${timeSql('{received_until:Int64}')}`,
          params: { received_until: scope.receivedUntil },
        }
  const join = joinUsers(
    events,
    conditions.flatMap(({ userFields }) => userFields),
  )
  // minIf returns 0 when no event meets the condition. No event has the time 0.
  return {
    sql: `
SELECT user_key, arrayMax([${firsts.join(', ')}]) AS entered_ms
FROM
(
    SELECT
        user_key,
        ${conditions.map(({ sql }, index) => `${isMetBySeveralEvents ? `minIf(${time}, ${sql})` : `min(${time})`} AS met_${index}`).join(',\n        ')}
    FROM events
    ${join}
    WHERE ${scopeCondition(events)}${received.sql} AND user_key != 0 AND (${conditions.map(({ sql }) => sql).join(' OR ')})
    GROUP BY user_key
    HAVING ${firsts.map((first) => `${first} > 0`).join(' AND ')}
)`,
    params: Object.assign(
      scopeParams(events),
      received.params,
      ...conditions.map(({ params }) => params),
    ) as QueryParams,
  }
}
