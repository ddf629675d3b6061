import type { Actor } from '@sluice/contracts/actors'
import type { FunnelStep } from '@sluice/contracts/funnel'
import { conditionSql } from '../conditions.ts'
import { actorKeys, type EventScope, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import type { Statement } from '../query-runner.ts'

/** A funnel over the events of a scope. */
export interface FunnelSpec extends EventScope {
  steps: readonly FunnelStep[]
  /** Longest time from the event of the first step to that of the last one, in ms. */
  windowMs: number
  of: Actor
}

/** The users that came exactly to one level: the number of steps that they met. */
export interface LevelRow {
  level: number
  users: number
}

/** Places for the events of one user within a millisecond. */
const places = 2 ** 20

/**
 * Selects how many users (or visitors) came to each level: the most steps that a sequence of one user's events meets, with one event
 * for each step, in the order of times and ids, within the window of the first event (docs/http-interface.md#funnel).
 *
 * ClickHouse's windowFunnel computes the level, but takes events of the same time in any order. So it gets times of a
 * finer unit, in which the place among the user's events makes each time unique. Half of the places stay unused, so that
 * a place never moves an event into the window or out of it.
 */
export function funnelStatement(spec: FunnelSpec): Statement {
  const { steps, windowMs, of } = spec
  const actorKey = actorKeys[of]
  const conditions = steps.map(({ conditions: filter = [] }, index) => {
    const condition = conditionSql(filter, { prefix: `step_${index}` })
    return { ...condition, sql: `(event_type = {type_${index}:String} AND ${condition.sql})` }
  })
  const met = conditions.map(({ sql }) => `toUInt8(${sql})`).join(', ')
  const stepMatches = steps.map((_, index) => `arrayMap(event -> event.3[${index + 1}], own)`).join(', ')
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
        arrayReduce('windowFunnel(${window}, \\'strict_once\\')', times, ${stepMatches}) AS level
    FROM events
    ${joinUsers(
      spec,
      conditions.flatMap(({ userFields }) => userFields),
    )}
    WHERE ${scopeCondition(spec)} AND ${actorKey} != 0 AND (${conditions.map(({ sql }) => sql).join(' OR ')})
    GROUP BY ${actorKey}
)
WHERE level > 0
GROUP BY level`,
    params: Object.assign(
      scopeParams(spec),
      Object.fromEntries(steps.map(({ event_type }, index) => [`type_${index}`, event_type])),
      ...conditions.map(({ params }) => params),
    ) as Statement['params'],
  }
}
