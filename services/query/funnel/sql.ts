import { conditionSql } from '@sluice/clickhouse/conditions'
import type { FunnelStep } from '@sluice/contracts/funnel'
import type { Statement } from '../ask.ts'
import { type EventScope, inScope, joinUsers, scopeParams } from '../event-scope.ts'

export interface FunnelQuestion extends EventScope {
  steps: readonly FunnelStep[]
  /** From the first step's event to the last one's, at most. */
  windowMs: number
}

/** How many users met so many steps, and no more. */
export interface LevelRow {
  level: number
  users: number
}

/** Room for the order of a user's events that are of one millisecond. */
const places = 2 ** 20

/**
 * For each user, how far the best of their ways through the steps leads: events of one user, one for each step, in the
 * order of their times, at one time in that of their ids, and within the window of the first.
 *
 * ClickHouse's windowFunnel finds it, but takes events of one time in any order. So it gets times of a finer unit, in
 * which each of a user's events has a time of its own: their place among the user's events. Half the room is
 * left free, so that none falls out of the window, or into it, for its place.
 */
export function funnelStatement(question: FunnelQuestion): Statement {
  const { steps, windowMs } = question
  const conditions = steps.map(({ conditions: filter = [] }, index) => {
    const condition = conditionSql(filter, { prefix: `step_${index}` })
    return { ...condition, sql: `(event_type = {type_${index}:String} AND ${condition.sql})` }
  })
  const met = conditions.map(({ sql }) => `toUInt8(${sql})`).join(', ')
  const ways = steps.map((_, index) => `arrayMap(event -> event.3[${index + 1}], own)`).join(', ')
  const window = `${BigInt(windowMs) * BigInt(places) + BigInt(places / 2)}`
  return {
    sql: `
SELECT level, count() AS users
FROM
(
    SELECT
        arraySort(groupArray((toUnixTimestamp64Milli(timestamp), event_id, [${met}]))) AS own,
        arrayMap(
            (event, place) -> toUInt64(event.1) * ${places} + least(place, ${places / 2 - 1}),
            own, arrayEnumerate(own)
        ) AS times,
        arrayReduce('windowFunnel(${window}, \\'strict_once\\')', times, ${ways}) AS level
    FROM events
    ${joinUsers(
      question,
      conditions.flatMap(({ userFields }) => userFields),
    )}
    WHERE ${inScope(question)} AND user_key != 0 AND (${conditions.map(({ sql }) => sql).join(' OR ')})
    GROUP BY user_key
)
WHERE level > 0
GROUP BY level`,
    params: Object.assign(
      scopeParams(question),
      Object.fromEntries(steps.map(({ event_type }, index) => [`type_${index}`, event_type])),
      ...conditions.map(({ params }) => params),
    ) as Statement['params'],
  }
}
